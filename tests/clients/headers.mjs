// Parse the deprecation headers with JavaScript's strict parsers.
import { parseItem } from "structured-headers";

const [method, url, session] = process.argv.slice(2);
const response = await fetch(url, { method, headers: { authorization: `Bearer ${session}` } });
const [deprecation, parameters] = parseItem(response.headers.get("deprecation"));
const sunset = response.headers.get("sunset");
console.log(
  JSON.stringify({
    deprecation: deprecation.toISOString(),
    parameters: parameters.size,
    // The only form that senders may write is the one that JavaScript writes.
    sunset: new Date(sunset).toUTCString() === sunset && new Date(sunset).toISOString(),
  }),
);
