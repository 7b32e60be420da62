// Report whether a cache may store a response, and whether it could if the response did not forbid it.
import CachePolicy from "http-cache-semantics";

const [method, url, session] = process.argv.slice(2);
const requestHeaders = session === "" ? {} : { authorization: `Bearer ${session}` };
const response = await fetch(url, { method, headers: requestHeaders });
const { "cache-control": _, ...unguarded } = Object.fromEntries(response.headers);

const storable = (headers, shared) =>
  new CachePolicy({ method, url, headers: requestHeaders }, { status: response.status, headers }, { shared }).storable();

const headers = Object.fromEntries(response.headers);
console.log(
  JSON.stringify({
    status: response.status,
    shared: storable(headers, true),
    private: storable(headers, false),
    unguarded: storable(unguarded, false),
  }),
);
