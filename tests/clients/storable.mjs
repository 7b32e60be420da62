// Tell whether a cache may keep an answer; and whether it could, had the answer not said anything about it.
import CachePolicy from "http-cache-semantics";

const [method, url, session] = process.argv.slice(2);
const headers = session === "" ? {} : { authorization: `Bearer ${session}` };
const answer = await fetch(url, { method, headers });
const { "cache-control": _, ...unguarded } = Object.fromEntries(answer.headers);

const storable = (fields, shared) =>
  new CachePolicy({ method, url, headers }, { status: answer.status, headers: fields }, { shared }).storable();

const fields = Object.fromEntries(answer.headers);
console.log(
  JSON.stringify({
    status: answer.status,
    shared: storable(fields, true),
    private: storable(fields, false),
    unguarded: storable(unguarded, false),
  }),
);
