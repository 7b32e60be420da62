// Make one call with GitHub's request library, which prints its warnings to standard error.
import { request } from "@octokit/request";

const [method, url, session] = process.argv.slice(2);
const { status } = await request(`${method} ${url}`, {
  headers: { authorization: `Bearer ${session}` },
}).catch((error) => ({ status: error.status }));
console.log(JSON.stringify({ status }));
