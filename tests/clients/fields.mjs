// Read the announcement as strictly as JavaScript does.
import { parseItem } from "structured-headers";

const [method, url, session] = process.argv.slice(2);
const answer = await fetch(url, { method, headers: { authorization: `Bearer ${session}` } });
const [deprecation, parameters] = parseItem(answer.headers.get("deprecation"));
const sunset = answer.headers.get("sunset");
console.log(
  JSON.stringify({
    deprecation: deprecation.toISOString(),
    parameters: parameters.size,
    // The one form that senders may write is the one that JavaScript writes.
    sunset: new Date(sunset).toUTCString() === sunset && new Date(sunset).toISOString(),
  }),
);
