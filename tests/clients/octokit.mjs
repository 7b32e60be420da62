// Make one call with GitHub's request library, which warns where anybody looks: on standard error.
import { request } from "@octokit/request";

const [method, url, session] = process.argv.slice(2);
const { status } = await request(`${method} ${url}`, {
  headers: { authorization: `Bearer ${session}` },
}).catch((fault) => ({ status: fault.status }));
console.log(JSON.stringify({ status }));
