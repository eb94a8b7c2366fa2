// Drives the server with the official SDK's client, as a desktop application would: over stdio, with the SDK's
// own checks of every message, and its validation of structured content against the declared output schemas.
// Prints one JSON report.   usage: node client.mjs PROGRAM [ARGUMENT…]
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { Ajv } from "ajv";

const [command, ...args] = process.argv.slice(2);
const transport = new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" });
const client = new Client({ name: "suite", version: "1.0.0" });
const report = { errors: [] };
client.onerror = (error) => report.errors.push(String(error));

const run = (language, code, more = {}, options = undefined) =>
        client.callTool({ name: "run_code", arguments: { language, code, ...more } }, undefined, options);

await client.connect(transport);
report.server = client.getServerVersion();
report.capabilities = client.getServerCapabilities();
report.instructions = client.getInstructions();
await client.ping();

const { tools } = await client.listTools();
report.tools = tools;
const ajv = new Ajv({ strict: false });
report.invalidSchemas = tools
        .flatMap((tool) => [tool.inputSchema, tool.outputSchema].map((schema) => [tool.name, schema]))
        .filter(([, schema]) => !schema || !ajv.validateSchema(schema))
        .map(([name]) => name);

report.languages = await client.callTool({ name: "list_supported_languages", arguments: {} });
report.python = await run("python", "print(6 * 7)\n");
report.cpp = await run("cpp", "#include <iostream>\nint main() { std::cout << \"from C++\\n\"; }\n");
report.broken = await run("cpp", "int main() { return x; }\n");
report.refused = await run("cobol", "DISPLAY 'HI'.");
report.unicode = await run("python", "print('\u{1f378} \u2028|')\n");
report.wrongType = await run("python", ["not", "text"]).catch((error) => ({ thrown: error.code }));
report.missing = await client.callTool({ name: "run_code", arguments: { language: "python" } })
        .catch((error) => ({ thrown: error.code }));
report.unknownTool = await client.callTool({ name: "no_such_tool", arguments: {} })
        .catch((error) => ({ thrown: error.code }));

// Several at once; the quick one is not kept waiting by the slow one.
const order = [];
await Promise.all([
        run("python", "import time\ntime.sleep(1)\n").then(() => order.push("slow")),
        run("python", "print('quick')\n").then(() => order.push("quick")),
]);
report.order = order;

// Cancelled by the client: the slot is free again at once.
const abort = new AbortController();
const started = Date.now();
const cancelled = run("python", "import time\ntime.sleep(25)\n", { timeout_seconds: 30 }, { signal: abort.signal })
        .then(() => "answered", () => "cancelled");
setTimeout(() => abort.abort("enough"), 300);
report.cancelled = await cancelled;
report.afterCancel = await run("python", "print('free')\n");
report.cancelMs = Date.now() - started;

report.history = await client.callTool({ name: "get_execution_history", arguments: { limit: 3 } });
await client.close();
console.log(JSON.stringify(report));
