//! The access table for people: the cells of each row, and the page `docs/access.md`.

use wire::access::{Effect, Needs, Offer, Protocol, Row, SessionIn, Who};

/// The names of the cells, in order.
const COLUMNS: [&str; 7] = ["method", "who", "session", "effect", "needs", "agents", "key"];

const HEAD: &str = "# Who may call what

<!-- Made from the access table by `UPDATE_GOLDEN=1 cargo nextest run -p surface access`; do not edit. -->

One table decides for every gRPC method, REST route, tool and method of the Agent Client Protocol; `obey access` prints
it. What has no row is refused. A refused caller gets OBEY-1002.

- **who** · *anyone*: also another user of this machine who has the token · *user*: the daemon's own user, and devices
  whose role covers the effect · *agent*: also an agent, about its own session · *bridge*: also the bridge of an agent
  (`obey mcp`), for its own session · *no tunnel*: refused when it comes through a relay.
- **session** · the field that names the session; *(caller)*: the calling agent's own, whatever the request says.
- **effect** · what it takes from a device: *reads* a viewer, *acts* an operator, *administers* an owner.
- **needs** · what an agent needs beside: a permission its user gives, an edit permission (given in the mode that accepts
  edits), or what whoever registered the tool declares. Plan mode and rules that deny bind each of them.
- **agents** · whether agents find it among their tools.
- **key** · the scope with which an API key (`obey key`) may call it; without one no key may.
";

/// Returns the cells of a row: method, who, session, effect, needs, agents, key.
pub fn cells(row: &Row) -> [(&'static str, String); 7] {
    let method = match row.protocol {
        Protocol::Grpc | Protocol::Rest => row.method.to_owned(),
        Protocol::Tool => format!("tool {}", row.method),
        Protocol::Acp => format!("acp {}", row.method),
    };
    let who = match row.who {
        Who::Anyone => "anyone",
        Who::User => "user",
        Who::Agent => "agent",
        Who::Bridge => "bridge",
    };
    let who = if row.tunnel { who.to_owned() } else { format!("{who}, no tunnel") };
    let session = match row.session {
        SessionIn::None => "",
        SessionIn::Caller => "(caller)",
        SessionIn::Field { name, .. } => name,
    };
    let effect = match row.effect {
        Effect::Reads => "reads",
        Effect::Acts => "acts",
        Effect::Administers => "administers",
    };
    let needs = match row.needs {
        Needs::Nothing => "nothing",
        Needs::Permission => "permission",
        Needs::EditPermission => "edit permission",
        Needs::Declared => "as declared",
    };
    let agents = match row.offer {
        Offer::NoTool => "",
        Offer::Offered => "offered",
        Offer::Withheld => "withheld",
    };
    let key = row.scope.map_or("", |scope| scope.name());
    let rest = [session, effect, needs, agents, key].map(str::to_owned);
    let [session, effect, needs, agents, key] = rest;
    let [a, b, c, d, e, f, g] = COLUMNS;
    [(a, method), (b, who), (c, session), (d, effect), (e, needs), (f, agents), (g, key)]
}

/// Returns the page.
pub fn page() -> String {
    let mut text = HEAD.to_owned();
    let sections = [
        ("gRPC", Protocol::Grpc),
        ("REST", Protocol::Rest),
        ("Tools", Protocol::Tool),
        ("Agent Client Protocol", Protocol::Acp),
    ];
    for (title, protocol) in sections {
        text.push_str(&format!(
            "\n## {title}\n\n| {} |\n|---|---|---|---|---|---|---|\n",
            COLUMNS.join(" | ")
        ));
        for row in super::rows().filter(|row| row.protocol == protocol) {
            let cells = cells(row).map(|(_, cell)| cell);
            text.push_str(&format!("| `{}` | {} |\n", cells[0], cells[1..].join(" | ")));
        }
    }
    text
}
