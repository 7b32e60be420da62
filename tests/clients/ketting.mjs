// Make one call with the hypermedia client, which warns where anybody looks: on standard error.
import { Client } from "ketting";

const [method, url, session] = process.argv.slice(2);
const answer = await new Client(url).fetcher.fetch(url, {
  method,
  headers: { authorization: `Bearer ${session}` },
});
console.log(JSON.stringify({ status: answer.status, data: await answer.json() }));
