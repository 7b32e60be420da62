// Resolve redirect locations as a browser does (WHATWG URL).
const { base, locations } = JSON.parse(await new Response(process.stdin).text());
const resolve = (location) => {
  try {
    const url = new URL(location, base);
    return [url.origin, url.pathname];
  } catch {
    return null;
  }
};
console.log(JSON.stringify(locations.map(resolve)));
