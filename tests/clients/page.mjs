// Report what a page of another origin can read of each response: its status and some of its headers.
const seen = async ({ url, init }) => {
  try {
    const response = await fetch(url, init);
    return { status: response.status, headers: Object.fromEntries(response.headers) };
  } catch (error) {
    return { error: error.name };
  }
};

const calls = await (await fetch("/calls")).json();
const entries = Object.entries(calls).map(async ([name, call]) => [name, await seen(call)]);
await fetch("/seen", { method: "POST", body: JSON.stringify(Object.fromEntries(await Promise.all(entries))) });
