//! Technical words with nearly the same meaning, or of one kind. A search for "login" should find
//! "authentication", and "k8s" is "kubernetes".

use std::collections::HashMap;
use std::sync::LazyLock;

use super::stem;

/// Each line is one concept; a word may be in several.
const GROUPS: &[&str] = &[
    "auth authentication authenticate login signin logon credential password session oauth sso token jwt",
    "authorization authorize permission access role acl rbac forbidden denied privilege",
    "database db sql postgres postgresql mysql sqlite mariadb query schema table migration orm",
    "cache caching memoize memoization redis memcached lru ttl",
    "test testing spec unit pytest jest junit assertion mock fixture",
    "flaky intermittent nondeterministic unstable race",
    "concurrency concurrent parallel thread race deadlock mutex lock atomic synchronization",
    "async await asynchronous future promise coroutine tokio event",
    "error exception failure fault panic crash bug defect",
    "timeout deadline hang stall slow latency wait",
    "performance slow fast latency throughput optimize optimization speed bottleneck profile",
    "memory leak heap allocation oom ram garbage",
    "network connection socket tcp http request dns connectivity",
    "http rest api endpoint route request response",
    "grpc protobuf rpc proto",
    "build compile compilation compiler make cargo gradle maven webpack bundler",
    "dependency package library module crate npm pip import version",
    "deploy deployment release rollout ship publish",
    "container docker image podman dockerfile",
    "kubernetes k8s kubectl helm pod cluster",
    "ci pipeline workflow continuous integration jenkins actions",
    "config configuration setting option preference environment env variable",
    "git commit branch merge rebase repository repo",
    "conflict merge rebase collision",
    "log logging trace tracing telemetry observability metric monitor",
    "security vulnerability exploit injection xss csrf cve",
    "secret credential key password token",
    "encrypt encryption decrypt tls ssl certificate crypto",
    "file path directory folder filesystem disk",
    "permission chmod owner denied",
    "json yaml toml serialize serialization deserialize parse parser parsing marshal",
    "string text unicode utf8 encoding charset",
    "regex regexp pattern match",
    "date time timezone timestamp clock utc",
    "frontend ui browser react vue angular dom css",
    "backend server service daemon",
    "queue message broker kafka rabbitmq nats pubsub event",
    "retry backoff resilience reconnect idempotent",
    "limit throttle rate quota budget",
    "refactor refactoring cleanup restructure rewrite",
    "type typing typescript annotation generic",
    "null nil none undefined optional",
    "array list vector slice collection",
    "map dictionary dict hash hashmap",
    "pagination page cursor offset",
    "search find lookup query index",
    "delete remove drop erase",
    "create add insert new",
    "update change modify edit patch",
    "start begin launch boot init initialize",
    "stop end kill terminate shutdown exit",
    "install setup provision bootstrap",
    "python pip pytest venv virtualenv",
    "javascript js node nodejs npm typescript",
    "rust cargo crate borrow lifetime clippy",
    "go golang goroutine gomod",
    "java jvm maven gradle kotlin",
    "backup restore snapshot checkpoint",
    "upload download transfer fetch",
    "email mail smtp",
    "float decimal rounding precision numeric integer overflow",
];

static CONCEPTS: LazyLock<HashMap<String, Vec<u16>>> = LazyLock::new(|| {
    let mut concepts: HashMap<String, Vec<u16>> = HashMap::new();
    for (number, group) in (0u16..).zip(GROUPS) {
        for word in group.split(' ') {
            concepts.entry(stem(word)).or_default().push(number);
        }
    }
    concepts
});

/// Returns the numbers of a term's concepts.
pub fn concepts(term: &str) -> &'static [u16] {
    CONCEPTS.get(term).map_or(&[], Vec::as_slice)
}

/// Returns the words of a concept.
pub fn words_of(concept: u16) -> std::str::Split<'static, char> {
    GROUPS.get(usize::from(concept)).copied().unwrap_or_default().split(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn related_words_share_an_idea() {
        for (one, other) in [("login", "authentication"), ("k8s", "kubernetes"), ("database", "postgres")] {
            let (one, other) = (concepts(&stem(one)), concepts(&stem(other)));
            assert!(one.iter().any(|idea| other.contains(idea)), "{one:?} {other:?}");
        }
        assert_eq!(concepts("zebra"), &[] as &[u16]);
    }
}
