// Drives betcode.v1 from Node, compiled from the messages as they were published: two clients at one session, over
// TCP. Usage: betcode_v1.cjs PLAN, a JSON object with what differs between agents, with the packages on NODE_PATH.
// Prints one line per check and ends with code 1 at the first that fails.

const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const plan = JSON.parse(process.argv[2]);
// Bounds a hang; nothing here is judged by its speed.
const WAIT_MS = 60_000;

const reading = { keepCase: true, longs: Number, enums: String, defaults: true, oneofs: true };
const definition = loader.loadSync(plan.proto, reading);
const { betcode } = grpc.loadPackageDefinition(definition);

function check(what, condition, seen) {
  if (!condition) {
    console.log(`FAILED ${what}: ${JSON.stringify(seen, null, 1)}`);
    process.exit(1);
  }
  console.log(`ok     ${what}`);
}

// A client with a connection of its own: otherwise all clients of one process share one.
function connect(Service) {
  const options = { "grpc.use_local_subchannel_pool": 1, "grpc.max_receive_message_length": 64 << 20 };
  return new Service(plan.address, grpc.credentials.createInsecure(), options);
}

function call(client, method, request) {
  const deadline = Date.now() + WAIT_MS;
  return new Promise((resolve, reject) => {
    client[method](request, { deadline }, (error, answer) => (error ? reject(error) : resolve(answer)));
  });
}

function all(stream) {
  const events = [];
  return new Promise((resolve, reject) => {
    stream.on("data", (event) => events.push(event));
    stream.on("error", reject);
    stream.on("end", () => resolve(events));
  });
}

// One conversation: everything heard so far, and a way to wait for more.
class Talk {
  constructor(agents, start) {
    this.heard = [];
    this.ended = false;
    this.wake = () => {};
    this.stream = agents.Converse({ deadline: Date.now() + 2 * WAIT_MS });
    this.stream.on("data", (event) => {
      this.heard.push(event);
      this.wake();
    });
    this.stream.on("error", (error) => {
      this.error = error;
      this.wake();
    });
    this.stream.on("end", () => {
      this.ended = true;
      this.wake();
    });
    this.read = 0;
    this.say({ start });
  }

  say(request) {
    this.stream.write(request);
  }

  async next(what) {
    while (this.read === this.heard.length) {
      check(what, !this.error && !this.ended, { error: String(this.error), heard: this.heard });
      await new Promise((resolve) => {
        const timer = setTimeout(() => check(what, false, this.heard), WAIT_MS);
        this.wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    this.read += 1;
    return this.heard[this.read - 1];
  }

  // Waits for an event of a kind; returns it.
  async until(kind) {
    for (;;) {
      const event = await this.next(`a ${kind}`);
      if (event.event === kind) return event[kind];
    }
  }

  // Waits for the end of a turn; returns its text and why it ended.
  async turn() {
    const from = this.read;
    const end = await this.until("turn_complete");
    return { text: text(this.heard.slice(from)), reason: end.stop_reason };
  }

  // Says no more and hears the rest.
  async close() {
    this.stream.end();
    while (!this.ended) {
      await new Promise((resolve) => (this.ended ? resolve() : (this.wake = resolve)));
    }
  }

  numbered() {
    return this.heard.filter((event) => event.sequence > 0);
  }
}

function text(events) {
  return events.filter((event) => event.event === "text_delta").map((event) => event.text_delta.text).join("");
}

async function converse() {
  const [first, second] = [connect(betcode.v1.AgentService), connect(betcode.v1.AgentService)];
  const start = { working_directory: plan.project, model: plan.model, metadata: { provider: plan.provider } };
  const anna = new Talk(first, start);
  const opened = await anna.next("the answer to a start");
  check("a start is answered at once", opened.event === "session_info" && opened.sequence === 0, opened);
  const session_id = opened.session_info.session_id;
  const ben = new Talk(second, { session_id });
  const joined = await ben.next("the answer to a start");
  check("a second client joins", joined.session_info.session_id === session_id, joined);
  check("and is told that it is no new session", joined.session_info.is_resumed, joined);

  anna.say({ message: { content: plan.asking } });
  const asked = await anna.until("permission_request");
  const seen = await ben.until("permission_request");
  check("both are asked the same", asked.request_id === seen.request_id, [asked, seen]);
  check("a permission names its call", asked.tool_name === plan.tool, asked);
  const command = asked.input.fields.command.stringValue;
  check("and carries what it was called with", command === plan.command, asked);
  ben.say({ permission: { request_id: asked.request_id, decision: "ALLOW_ONCE" } });
  const [heard, overheard] = [await anna.turn(), await ben.turn()];
  check("the turn goes on and ends", heard.reason === "end_turn" && heard.text === "made it", heard);
  check("for both", overheard.reason === "end_turn" && overheard.text === "made it", overheard);
  const results = anna.heard.filter((event) => event.event === "tool_call_result");
  check("the call's result arrives", results.length === 1 && !results[0].tool_call_result.is_error, results);

  ben.say({ message: { content: "let me" } });
  const refused = await ben.until("error");
  check("only one of them may speak", refused.code === "OBEY-1002" && !refused.is_fatal, refused);
  const lock = await call(second, "RequestInputLock", { session_id });
  check("the other may take over", lock.granted && lock.previous_holder !== "", lock);
  ben.say({ message: { content: plan.hanging } });
  await ben.until("text_delta");
  await anna.until("text_delta");
  ben.say({ cancel: { reason: "enough" } });
  check("a turn is cancelled", (await ben.turn()).reason === "cancelled");
  check("for both", (await anna.turn()).reason === "cancelled");
  const { filename, mime_type } = plan.file;
  const file = { filename, mime_type, data: Buffer.from(plan.file.text) };
  ben.say({ message: { content: plan.reading, attachments: [file] } });
  check("a file is read", (await ben.turn()).text === "read", ben.heard);
  await anna.turn();

  await anna.close();
  check("who says no more hears no more", anna.ended && !anna.error, String(anna.error));
  ben.say({ message: { content: plan.last } });
  check("the other goes on alone", (await ben.turn()).text === "alone", ben.heard);
  await ben.close();

  const numbers = ben.numbered().map((event) => event.sequence);
  check("numbers grow", numbers.every((number, at) => at === 0 || number > numbers[at - 1]), numbers);
  const stored = await all(first.ResumeSession({ session_id }));
  const replayed = stored.flatMap((event) => (event.permission_request ? [event.permission_request.description] : []));
  const isMarked = replayed.length > 0 && replayed.every((text) => text.includes("[settled: "));
  check("a replay says what is settled", isMarked, replayed);
  // What was heard does not say so yet.
  const plain = (events) => JSON.stringify(events).replace(/ \[settled: [^\]]*\]/g, "").replace(/"settled":"[^"]*"/g, '""');
  check("what one heard is stored", plain(stored.slice(0, numbers.length)) === plain(ben.numbered()), stored);
  const both = anna.numbered();
  check("and so is what the other heard", plain(stored.slice(0, both.length)) === plain(both), both);
  const half = numbers[numbers.length >> 1];
  const later = await all(first.ResumeSession({ session_id, from_sequence: half }));
  check("a replay starts after a number", later[0].sequence > half, later[0]);
  const listed = await call(first, "ListSessions", { working_directory: plan.project });
  const found = listed.sessions.filter((summary) => summary.id === session_id);
  check("the session is listed", listed.total === 1 && found[0].last_message_preview === "alone", listed);
  const idle = await call(first, "CancelTurn", { session_id });
  check("there is no turn to cancel", !idle.was_active, idle);
}

async function worktrees() {
  const trees = connect(betcode.v1.WorktreeService);
  const wanted = { repo_path: plan.project, name: "node", branch: "node", create_branch: true };
  const made = await call(trees, "CreateWorktree", wanted);
  check("a worktree is made", made.branch === "node" && made.name === "node", made);
  const talk = new Talk(connect(betcode.v1.AgentService), {
    worktree_id: made.id,
    model: plan.model,
    metadata: { provider: plan.provider },
  });
  const opened = (await talk.next("the answer to a start")).session_info;
  check("a session works in it", opened.worktree_id === made.id && opened.working_directory === made.path, opened);
  const { worktrees: listed } = await call(trees, "ListWorktrees", { repo_path: plan.project });
  check("it is listed with its session", listed[1].active_session_id === opened.session_id, listed);
  const switched = await call(trees, "SwitchWorktree", { worktree_id: made.id });
  check("it can be chosen", switched.worktree.id === made.id, switched);
  talk.stream.cancel();
  const removed = await call(trees, "RemoveWorktree", { worktree_id: made.id });
  check("and removed", removed.removed && removed.sessions_closed === 1, removed);
}

converse()
  .then(worktrees)
  .then(() => process.exit(0))
  .catch((error) => check("no call fails", false, `${error.stack}`));
