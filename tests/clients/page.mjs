// What a page of another origin makes of an answer: its status and the fields that the browser lets it read.
const seen = async ({ url, init }) => {
  try {
    const answer = await fetch(url, init);
    return { status: answer.status, fields: Object.fromEntries(answer.headers) };
  } catch (fault) {
    return { fault: fault.name };
  }
};

const calls = await (await fetch("/calls")).json();
const entries = Object.entries(calls).map(async ([name, call]) => [name, await seen(call)]);
await fetch("/seen", { method: "POST", body: JSON.stringify(Object.fromEntries(await Promise.all(entries))) });
