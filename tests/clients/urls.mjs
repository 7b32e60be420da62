// Where a browser goes when it follows a redirect (WHATWG URL).
const { base, locations } = JSON.parse(await new Response(process.stdin).text());
const resolved = (location) => {
  try {
    const url = new URL(location, base);
    return [url.origin, url.pathname];
  } catch {
    return null;
  }
};
console.log(JSON.stringify(locations.map(resolved)));
