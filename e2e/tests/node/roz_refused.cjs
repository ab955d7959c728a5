// Tries to use roz.v1 as somebody who may not: an agent that would start sessions of its own. Usage: roz_refused.cjs
// ADDRESS PROTO ENVIRONMENT TASK, with the packages on NODE_PATH. Prints what each attempt was answered with.

const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const [address, proto, environment_id, id] = process.argv.slice(2);
const { roz } = grpc.loadPackageDefinition(loader.loadSync(proto, { keepCase: true, oneofs: true }));
const connect = (Service) => new Service(address, grpc.credentials.createInsecure());
const [agents, tasks] = [roz.v1.AgentService, roz.v1.TaskService].map(connect);
// Bounds a hang; nothing here is judged by its speed.
const options = { deadline: Date.now() + 20_000 };
const name = (error) => Object.keys(grpc.status).find((key) => grpc.status[key] === error.code);

const all = (stream) =>
  new Promise((resolve) => {
    const heard = [];
    stream.on("data", (message) => heard.push(message.error ? message.error.code : message.response || message.event));
    stream.on("error", (error) => resolve([...heard, name(error)]));
    stream.on("end", () => resolve(heard));
  });
const one = (method, request) =>
  new Promise((resolve) => tasks[method](request, options, (error) => resolve([error ? name(error) : "OK"])));

async function main() {
  const session = agents.StreamSession(options);
  session.write({ start: { environment_id } });
  console.log(`StreamSession ${await all(session)}`);
  console.log(`WatchTeam ${await all(agents.WatchTeam({ task_id: id }, options))}`);
  console.log(`CreateTask ${await one("CreateTask", { prompt: "work", environment_id })}`);
  console.log(`ApproveToolUse ${await one("ApproveToolUse", { task_id: id, tool_call_id: "x", approved: true })}`);
  process.exit(0);
}
main();
