// Open each page in Chromium, wide and narrow, light, dark and printed, and write the problems as JSON.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const { executablePath, args, pages } = JSON.parse(readFileSync(0, "utf8"));
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const modes = {
  wide: { width: 1280, colorScheme: "light", media: "screen" },
  narrow: { width: 360, colorScheme: "light", media: "screen" },
  dark: { width: 360, colorScheme: "dark", media: "screen" },
  print: { width: 794, colorScheme: "light", media: "print" },
};

// Return the elements that are wider than the window, except inside of an element that scrolls.
const findOverflow = () => {
  const wide = [...document.querySelectorAll("body *")].filter(
    (element) => !element.closest(".scroll, svg") && element.getBoundingClientRect().right > innerWidth + 0.5,
  );
  const cut = [...document.querySelectorAll("svg text")].filter((element) => {
    const { left, right } = element.getBoundingClientRect();
    return left < -0.5 || right > innerWidth + 0.5;
  });
  const page = document.documentElement.scrollWidth > innerWidth ? [document.documentElement] : [];
  return [...page, ...wide, ...cut].map((element) => `${element.tagName}: ${element.textContent.slice(0, 60)}`);
};

const findViolations = async (page) => {
  const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
  return violations.map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 200)} ${nodes[0].failureSummary}`);
};

const inspect = async (browser, url) => {
  const page = await browser.newPage();
  const seen = { requests: [], messages: [], modes: {} };
  page.on("request", (request) => seen.requests.push(request.url()));
  page.on("console", (message) => seen.messages.push(message.text()));
  page.on("pageerror", (error) => seen.messages.push(String(error)));
  await page.goto(url);
  seen.styled = await page.evaluate(() => getComputedStyle(document.querySelector(".page")).maxWidth !== "none");
  await page.evaluate(axe);
  for (const [mode, { width, ...media }] of Object.entries(modes)) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia(media);
    await page.evaluate(() => document.querySelectorAll("details").forEach((each) => (each.open = true)));
    const overflow = await page.evaluate(findOverflow);
    // axe takes minutes for a long table, whose rows are all alike.
    await page.evaluate(() => document.querySelectorAll("details").forEach((each) => (each.open = each.querySelectorAll("td").length < 500)));
    seen.modes[mode] = { overflow, violations: await findViolations(page) };
  }
  await page.close();
  return seen;
};

const browser = await chromium.launch({ executablePath, args });
const found = {};
for (const [name, url] of Object.entries(pages)) found[name] = await inspect(browser, url);
await browser.close();
process.stdout.write(JSON.stringify(found));
