// Calls the tools of a gate by the MCP client of the package that is named, as python_client.py does.
import { createRequire } from "node:module";

const [modules, name, task] = process.argv.slice(2);
const { settings, calls } = JSON.parse(task);
const load = createRequire(`${modules}/x.js`);
const old = name === "@modelcontextprotocol/sdk";
const { Client } = load(old ? `${name}/client/index.js` : name);
const { StdioClientTransport } = load(old ? `${name}/client/stdio.js` : `${name}/stdio`);
const { command, args } = Object.values(JSON.parse(settings).mcpServers)[0];
const client = new Client({ name: "own", version: "1" }, { capabilities: {} });
await client.connect(new StdioClientTransport({ command, args, env: process.env }));
const { tools } = await client.listTools();

async function call(name, args) {
  const asked = { name, arguments: args };
  const limit = { timeout: 100000 };
  const { content } = await (old ? client.callTool(asked, undefined, limit) : client.callTool(asked, limit));
  const texts = content.filter((block) => block.type === "text").map((block) => block.text);
  return [texts.join("\n"), content.filter((block) => block.type === "image").length];
}

const answers = [];
for (const [name, args] of calls) {
  const got = [await call(name, args)];
  while (got.at(-1)[0].includes("is no result yet") && got.length < 40) got.push(await call(name, args));
  answers.push(got);
}
console.log(JSON.stringify([tools.map((tool) => tool.name), answers]));
await client.close();
