// Writes the part of plotly.js that the figures use, its licences, and the bundle compressed for browsers.
import { build } from "esbuild";
import { readFile, readdir, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { brotliCompressSync } from "node:zlib";

const target = new URL("../../src/stripewise/output/assets/", import.meta.url);
const own = new URL("./", import.meta.url);

// The end of the string literal that begins at `at`.
function ended(text, at) {
  for (let i = at + 1; ; i++) {
    if (text[i] === "\\") {
      i++;
    } else if (text[i] === text[at]) {
      return i + 1;
    }
  }
}

// The source without the texts that document its schema: a sixth of the bundle, and no page shows them.
function stripped(text) {
  let out = "";
  let from = 0;
  for (const match of text.matchAll(/\bdescription: */g)) {
    let i = match.index + match[0].length;
    if (match.index < from) {
      continue;
    }
    const list = text[i] === "[";
    i += list ? 1 : 0;
    for (;;) {
      while (/[\s+]/.test(text[i]) || (list && text[i] === ",")) {
        i++;
      }
      if ("'\"`".includes(text[i])) {
        i = ended(text, i);
      } else if (text.startsWith("//", i)) {
        i = text.indexOf("\n", i);
      } else {
        break;
      }
    }
    if (list) {
      const joined = /^\]\s*\.join\((['"]).*?\1\)/.exec(text.slice(i, i + 60));
      if (!joined) {
        continue;
      }
      i += joined[0].length;
    } else {
      i = match.index + text.slice(match.index, i).trimEnd().length;
      if (!/[,}\n]/.test(text[i])) {
        continue;
      }
    }
    out += text.slice(from, match.index) + "description: ''";
    from = i;
  }
  return out + text.slice(from);
}

const plugin = {
  name: "smaller",
  setup(made) {
    made.onResolve({ filter: /^culori$/ }, () => ({ path: new URL("colours.mjs", own).pathname }));
    made.onResolve({ filter: /components\/selections$/ }, () => ({ path: new URL("selections.cjs", own).pathname }));
    made.onLoad({ filter: /fonts\/ploticon\.js$/ }, ({ path }) => {
      // The buttons that the figures have.
      const all = createRequire(import.meta.url)(path);
      const kept = Object.fromEntries(["zoombox", "pan", "home", "camera"].map((name) => [name, all[name]]));
      return { contents: `module.exports = ${JSON.stringify(kept)};`, loader: "js" };
    });
    made.onLoad({ filter: /plotly\.js\/src\/.*\.js$/ }, async ({ path }) => ({
      contents: stripped(await readFile(path, "utf8")),
      loader: "js",
    }));
  },
};

const { version } = JSON.parse(await readFile(new URL("node_modules/plotly.js/package.json", own), "utf8"));
const result = await build({
  absWorkingDir: own.pathname,
  entryPoints: ["entry.cjs"],
  bundle: true,
  minify: true,
  format: "iife",
  globalName: "Plotly",
  target: "es2018",
  plugins: [plugin],
  define: { global: "window", "process.env.NODE_DEBUG": "false" },
  banner: { js: `/**\n* plotly.js v${version}, in part (packaging/plotly)\n* Copyright 2012-2026, Plotly, Inc.\n* Licensed under the MIT license; plotly.LICENSES.txt has it and those of the packages inside\n*/` },
  legalComments: "none",
  charset: "ascii",
  metafile: true,
  outdir: ".",
  write: false,
});
const script = result.outputFiles.find((file) => file.path.endsWith(".js")).contents;
const inside = new Set();
for (const input of Object.keys(Object.values(result.metafile.outputs).find((one) => one.entryPoint).inputs)) {
  const found = /^node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(input);
  if (found) {
    inside.add(found[1]);
  }
}
let licences = "";
for (const name of [...inside].sort()) {
  const folder = new URL(`node_modules/${name}/`, own);
  const about = JSON.parse(await readFile(new URL("package.json", folder), "utf8"));
  const file = (await readdir(folder)).find((one) => /^licen[cs]e/i.test(one));
  const text = file ? await readFile(new URL(file, folder), "utf8") : `License: ${about.license}\n`;
  licences += `== ${name} ${about.version} ==\n\n${text.trim().replace(/[ \t]+$/gm, "")}\n\n`;
}
await writeFile(new URL("plotly.min.js", target), script);
await writeFile(new URL("plotly.min.js.br", target), brotliCompressSync(script));
await writeFile(new URL("plotly.LICENSES.txt", target), licences.trimEnd() + "\n");
