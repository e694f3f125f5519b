// Tells which versions are there, for the page of results. Programs import it from beside their node_modules.
import fs from "node:fs";

export function tellVersions(...names) {
  for (const name of names) {
    const { version } = JSON.parse(fs.readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url), "utf8"));
    console.log("VERSION", name, version);
  }
}

// Waits until something holds.
export async function until(what, holds, seconds = 20) {
  const end = Date.now() + seconds * 1000;
  while (!(await holds())) {
    if (Date.now() > end) throw new Error(`waited for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
