// Make one call with the hypermedia client, which prints its warnings to standard error.
import { Client } from "ketting";

const [method, url, session] = process.argv.slice(2);
const response = await new Client(url).fetcher.fetch(url, {
  method,
  headers: { authorization: `Bearer ${session}` },
});
console.log(JSON.stringify({ status: response.status, data: await response.json() }));
