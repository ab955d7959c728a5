// Drives roz.v1 from Node, compiled from the messages as they were published: a session with tools of its own, tasks,
// a team and a host, over TCP. Usage: roz_v1.cjs PLAN, a JSON object with what differs between agents, with the packages
// on NODE_PATH. Prints one line per check and ends with code 1 at the first that fails.

const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const plan = JSON.parse(process.argv[2]);
// Bounds a hang; nothing here is judged by its speed.
const WAIT_MS = 60_000;

const reading = { keepCase: true, longs: Number, enums: String, defaults: false, oneofs: true };
const { roz } = grpc.loadPackageDefinition(loader.loadSync(plan.proto, reading));

function check(what, condition, seen) {
  if (!condition) {
    console.log(`FAILED ${what}: ${JSON.stringify(seen, null, 1)}`);
    process.exit(1);
  }
  console.log(`ok     ${what}`);
}

const connect = (Service) => new Service(plan.address, grpc.credentials.createInsecure());
const [agents, tasks, hosts] = [roz.v1.AgentService, roz.v1.TaskService, roz.v1.HostService].map(connect);

function call(client, method, request) {
  const deadline = Date.now() + WAIT_MS;
  return new Promise((resolve, reject) => {
    client[method](request, { deadline }, (error, answer) => (error ? reject(error) : resolve(answer)));
  });
}

// Everything a stream says, one by one.
class Heard {
  constructor(stream) {
    this.stream = stream;
    this.all = [];
    this.read = 0;
    this.ended = false;
    this.wake = () => {};
    stream.on("data", (message) => {
      this.all.push(message);
      this.wake();
    });
    stream.on("error", (error) => {
      this.error = error;
      this.wake();
    });
    stream.on("end", () => {
      this.ended = true;
      this.wake();
    });
  }

  // Returns the next message; nothing when the stream has ended.
  async next(what) {
    while (this.read === this.all.length) {
      check(what, !this.error, { error: String(this.error), heard: this.all });
      if (this.ended) return undefined;
      await new Promise((resolve) => {
        const timer = setTimeout(() => check(what, false, this.all), WAIT_MS);
        this.wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    this.read += 1;
    return this.all[this.read - 1];
  }

  // Waits for a message that fits; returns it.
  async until(what, fits) {
    for (;;) {
      const message = await this.next(what);
      check(what, message !== undefined, this.all.slice(-20));
      if (fits(message)) return message;
    }
  }

  async rest() {
    while ((await this.next("the end")) !== undefined);
    return this.all;
  }
}

// One session.
class Session extends Heard {
  constructor() {
    super(agents.StreamSession({ deadline: Date.now() + 2 * WAIT_MS }));
  }

  say(request) {
    this.stream.write(request);
  }

  async kind(kind, fits = () => true) {
    return (await this.until(`a ${kind}`, (said) => said.response === kind && fits(said[kind])))[kind];
  }

  async turn() {
    const from = this.read;
    const end = await this.kind("turn_complete");
    return { ...end, text: text(this.all.slice(from, this.read)) };
  }

  async refused(code) {
    const error = await this.kind("error");
    check(`the code ${code}`, error.code === code, error);
  }
}

const text = (heard) => heard.filter((said) => said.text_delta).map((said) => said.text_delta.content).join("");
// Protobuf's Struct and Value, as plain values.
const value = ({ kind, ...held }) => (kind === "structValue" ? struct(held[kind]) : held[kind]);
const struct = ({ fields = {} }) => Object.fromEntries(Object.entries(fields).map(([key, of]) => [key, value(of)]));
const field = (string) => ({ stringValue: string });

const look = { name: "look", description: "looks around", category: "TOOL_CATEGORY_PURE", timeout_ms: 9000 };
const lift = {
  name: "lift",
  description: "lifts something",
  category: "TOOL_CATEGORY_PHYSICAL",
  parameters_schema: { fields: { type: field("object") } },
};

async function session() {
  const talk = new Session();
  talk.say({ ping: {} });
  await talk.kind("pong");
  talk.say({ user_message: { content: "too early" } });
  await talk.refused("no_session");
  talk.say({
    start: {
      environment_id: plan.environment,
      tools: [look, lift],
      history: [{ role: "user", parts: [{ text: { text: "my name is Ottoline" } }] }],
      project_context: ["always use tabs"],
    },
  });
  const started = await talk.kind("session_started");
  check("a session starts", started.session_id.startsWith("sess_") && started.model !== "", started);
  const policies = started.permissions.map((rule) => `${rule.tool_pattern} ${rule.policy}`);
  check("the start says what asks", policies.join() === "look allow,lift require_confirmation", policies);
  talk.say({ start: { environment_id: plan.environment } });
  await talk.refused("already_started");

  talk.say({ user_message: { content: plan.looking, message_id: "m-1", ai_mode: "ooda_re_act" } });
  const seen = await talk.kind("tool_request");
  check("a tool is asked for", seen.tool_name === "look" && seen.timeout_ms === 9000, seen);
  check("with its parameters", struct(seen.parameters).where === "left", seen);
  talk.say({ user_message: { content: "at once" } });
  await talk.refused("turn_in_progress");
  talk.say({ tool_result: { tool_call_id: seen.tool_call_id, success: true, result: "a red door" } });
  talk.say({ tool_result: { tool_call_id: seen.tool_call_id, success: true, result: "twice" } });
  const first = await talk.turn();
  check("a turn ends under its message", first.message_id === "m-1" && first.stop_reason === "end_turn", first);
  check("all its text came before", first.text.includes("seen it"), first);
  const ids = talk.all.filter((said) => said.text_delta).map((said) => said.text_delta.message_id);
  check("and under the same message", ids.every((id) => id === "m-1"), ids);

  talk.say({ user_message: { content: plan.lifting, message_id: "m-2" } });
  const waits = (update) => update.state === "waiting_approval";
  const refusal = (await talk.kind("activity_update", waits)).detail;
  talk.say({ permission_decision: { tool_call_id: refusal, approved: false } });
  const approval = (await talk.kind("activity_update", (update) => waits(update) && update.detail !== refusal)).detail;
  talk.say({ permission_decision: { tool_call_id: approval, approved: true } });
  const lifted = await talk.kind("tool_request");
  check("what was approved is asked for", lifted.tool_call_id === approval, lifted);
  talk.say({ tool_result: { tool_call_id: approval, success: false, result: "too heavy", exit_code: 3 } });
  check("a turn survives a denial and a failure", (await talk.turn()).text.includes("did what I could"), talk.all);
  const levels = talk.all.filter((said) => said.presence_hint).map((said) => said.presence_hint.level);
  check("the client was told to show itself", levels.includes("full"), levels);

  if (plan.heeds_changes) await changes(talk);

  talk.say({ user_message: { content: plan.hanging, message_id: "m-5" } });
  await talk.kind("text_delta");
  talk.say({ cancel_turn: { reason: "enough" } });
  const cancelled = await talk.turn();
  check("a turn is cancelled", cancelled.stop_reason === "cancelled" && !cancelled.usage, cancelled);
  talk.say({ cancel_turn: { reason: "again" } });
  await talk.refused("no_active_turn");
  talk.say({ feedback: { session_id: started.session_id, message_id: "m-1", rating: "sideways" } });
  await talk.refused("invalid_argument");
  talk.say({ feedback: { session_id: started.session_id, message_id: "m-1", rating: "up" } });
  talk.say({ user_message: { content: plan.last } });
  talk.stream.end();
  const heard = await talk.rest();
  check("who says no more hears the turn", text(heard).endsWith("the end"), heard.slice(-5));
}

// Tools that come and go during a session.
async function changes(talk) {
  talk.say({ register_tools: { source: "sim", tools: [{ ...look, name: "sim__step" }] } });
  talk.say({ user_message: { content: plan.stepping } });
  const step = await talk.kind("tool_request");
  check("a tool registered later is there", step.tool_name === "sim__step", step);
  talk.say({ tool_result: { tool_call_id: step.tool_call_id, success: true, result: "stepped" } });
  await talk.turn();
  talk.say({ user_message: { content: plan.once, tools: [{ ...look, name: "once" }] } });
  const once = await talk.kind("tool_request");
  check("so is one of a turn", once.tool_name === "once", once);
  talk.say({ tool_result: { tool_call_id: once.tool_call_id, success: true, result: "ok" } });
  await talk.turn();
}

async function endings() {
  const wrong = new Session();
  wrong.say({ start: { environment_id: "lab" } });
  await wrong.refused("invalid_argument");
  check("a wrong start ends the stream", (await wrong.next("the end")) === undefined, wrong.all);
  const talk = new Session();
  talk.say({ start: { environment_id: plan.environment, model: plan.model } });
  await talk.kind("session_started");
  talk.say({ user_message: { content: plan.hanging } });
  await talk.kind("text_delta");
  talk.say({ cancel_session: { reason: "over" } });
  const ends = (await talk.rest()).filter((said) => said.turn_complete).map((said) => said.turn_complete.stop_reason);
  check("a cancelled session ends", ends.join() === "cancelled", ends);
}

const statuses = (task_id) => new Heard(tasks.StreamTaskStatus({ task_id }, { deadline: Date.now() + WAIT_MS }));
const waiting = /^waiting_approval /;

async function team() {
  const lead = await call(tasks, "CreateTask", { prompt: plan.asking, environment_id: plan.environment });
  check("a task is made", lead.status === "pending" && lead.environment_id === plan.environment, lead);
  const led = statuses(lead.id);
  const asks = await led.until("a task that waits", (update) => waiting.test(update.detail || ""));
  const watching = new Heard(agents.WatchTeam({ task_id: lead.id }, { deadline: Date.now() + 2 * WAIT_MS }));
  const wanted = { prompt: plan.working, environment_id: plan.environment, parent_task_id: lead.id };
  const worker = await call(tasks, "CreateTask", wanted);
  const words = (await statuses(worker.id).rest()).map((update) => update.status);
  check("its worker works to the end", words.at(-1) === "succeeded", words);
  const exited = (event) => event.event === "worker_exited";
  await watching.until("the end of a worker", exited);
  const seen = watching.all.map((event) => event.event);
  check("the team is watched", seen[0] === "worker_started" && seen.includes("worker_completed"), watching.all);
  const done = watching.all.find((event) => event.worker_completed).worker_completed;
  check("with its result", done.result === "worked", done);
  const tool_call_id = asks.detail.replace(waiting, "");
  await call(tasks, "ApproveToolUse", { task_id: lead.id, tool_call_id, approved: true });
  check("a task is approved", (await led.rest()).at(-1).status === "succeeded", led.all);
  const late = await new Heard(agents.WatchTeam({ task_id: lead.id }, { deadline: Date.now() + WAIT_MS })).rest();
  check("a late watcher sees the same", late.map((event) => event.event).join() === seen.join(), late);

  const doomed = await call(tasks, "CreateTask", { prompt: plan.asking, environment_id: plan.environment });
  const follow = statuses(doomed.id);
  await follow.until("a task that waits", (update) => waiting.test(update.detail || ""));
  await call(tasks, "CancelTask", { id: doomed.id });
  check("a task is cancelled", (await follow.rest()).at(-1).status === "cancelled", follow.all);
  const { data } = await call(tasks, "ListTasks", { limit: 10 });
  check("tasks are listed, the newest first", data.length === 3 && data[0].id === doomed.id, data);
  const found = await call(tasks, "GetTask", { id: lead.id });
  check("and found", found.status === "succeeded" && found.prompt === plan.asking, found);
  const lost = await call(tasks, "GetTask", { id: plan.unknown }).catch((error) => error);
  check("an unknown one is not found", lost.code === grpc.status.NOT_FOUND, String(lost));
}

async function host() {
  const wanted = { name: "arm", environment_id: plan.environment, capabilities: { gripper: "yes" } };
  const made = await call(hosts, "RegisterHost", wanted);
  check("a host is registered", made.capabilities.gripper === "yes", made);
  const { data } = await call(hosts, "ListHosts", { environment_id: plan.environment });
  check("and listed", data.length === 1 && data[0].id === made.id, data);
  await call(hosts, "DeregisterHost", { id: made.id });
  const lost = await call(hosts, "GetHost", { id: made.id }).catch((error) => error);
  check("and forgotten", lost.code === grpc.status.NOT_FOUND, String(lost));
}

session()
  .then(endings)
  .then(team)
  .then(host)
  .then(() => process.exit(0))
  .catch((error) => check("no call fails", false, `${error.stack}`));
