//! What a session's agent and everything it starts may use of the machine: how limits are written, merged and shown, and
//! what was measured. Enforces nothing.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::limits;

/// Keys of `provider_config` that every provider understands; they never reach the provider itself.
pub const MEMORY_KEY: &str = "limit_memory";
pub const CPUS_KEY: &str = "limit_cpus";
pub const PROCESSES_KEY: &str = "limit_processes";

/// Upper bounds for one session; what is absent is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceLimits {
    /// Of all processes together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Thousandths of a processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_millis: Option<u64>,
    /// Processes and threads at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
}

/// One of the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Resource {
    Memory,
    Cpus,
    Processes,
}

impl Resource {
    /// Every limit.
    pub const ALL: [Resource; 3] = [Self::Memory, Self::Cpus, Self::Processes];

    /// Returns the name of its setting and, behind `--`, of its flag.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpus => "cpus",
            Self::Processes => "processes",
        }
    }

    /// Returns its key in `provider_config`.
    pub fn key(self) -> &'static str {
        match self {
            Self::Memory => MEMORY_KEY,
            Self::Cpus => CPUS_KEY,
            Self::Processes => PROCESSES_KEY,
        }
    }

    /// Reads an amount as people write it; the error is the remedy.
    pub fn parse(self, text: &str) -> Result<u64, String> {
        match self {
            Self::Memory => parse_memory(text),
            Self::Cpus => parse_cpus(text),
            Self::Processes => parse_processes(text),
        }
    }

    /// Returns an amount as people write it.
    pub fn show(self, amount: u64) -> String {
        match self {
            Self::Memory => show_exactly(amount),
            Self::Cpus if amount.is_multiple_of(1_000) => (amount / 1_000).to_string(),
            Self::Cpus => {
                format!("{}.{:03}", amount / 1_000, amount % 1_000).trim_end_matches('0').to_owned()
            }
            Self::Processes => amount.to_string(),
        }
    }
}

impl ResourceLimits {
    /// Returns one of the limits.
    pub fn get(&self, resource: Resource) -> Option<u64> {
        match resource {
            Resource::Memory => self.memory_bytes,
            Resource::Cpus => self.cpu_millis,
            Resource::Processes => self.processes,
        }
    }

    /// Sets one of the limits.
    pub fn set(&mut self, resource: Resource, amount: Option<u64>) {
        match resource {
            Resource::Memory => self.memory_bytes = amount,
            Resource::Cpus => self.cpu_millis = amount,
            Resource::Processes => self.processes = amount,
        }
    }

    /// Returns whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Takes what a request says out of its settings.
    pub fn take(config: &mut BTreeMap<String, String>) -> Result<Self, Error> {
        let mut limits = Self::default();
        for resource in Resource::ALL {
            if let Some(text) = config.remove(resource.key()) {
                let amount = resource.parse(&text).map_err(|remedy| refused(resource, remedy))?;
                limits.set(resource, Some(amount));
            }
        }
        Ok(limits)
    }

    /// Returns these limits, and `other` for what they leave open.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        self.combined(other, |own, other| own.or(other))
    }

    /// Returns these limits where they are the stricter ones, and `most` elsewhere.
    #[must_use]
    pub fn at_most(self, most: Self) -> Self {
        self.combined(most, |own, most| match (own, most) {
            (Some(own), Some(most)) => Some(own.min(most)),
            (own, most) => own.or(most),
        })
    }

    /// Refuses a request that asks for more than it may have; `who` set the maximum.
    pub fn check_at_most(&self, most: &Self, who: &str) -> Result<(), Error> {
        for resource in Resource::ALL {
            if let (Some(asked), Some(most)) = (self.get(resource), most.get(resource))
                && asked > most
            {
                let remedy =
                    format_args!("{who} allows at most {}; ask for that or less", resource.show(most));
                return Err(refused(resource, remedy));
            }
        }
        Ok(())
    }

    fn combined(self, other: Self, choose: impl Fn(Option<u64>, Option<u64>) -> Option<u64>) -> Self {
        let mut combined = Self::default();
        for resource in Resource::ALL {
            combined.set(resource, choose(self.get(resource), other.get(resource)));
        }
        combined
    }
}

fn refused(resource: Resource, remedy: impl fmt::Display) -> Error {
    Error::invalid(&format!("provider_config.{}", resource.key()), remedy)
}

impl fmt::Display for ResourceLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = Resource::ALL.into_iter().filter_map(|resource| Some((resource, self.get(resource)?)));
        let shown: Vec<String> =
            set.map(|(resource, amount)| format!("{} {}", resource.name(), resource.show(amount))).collect();
        f.write_str(if shown.is_empty() { "none" } else { "" })?;
        f.write_str(&shown.join(", "))
    }
}

/// By what limits hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Enforcement {
    CgroupV2,
    CgroupV1,
    /// Limits of single processes, which they inherit.
    Rlimits,
    #[default]
    #[serde(other)]
    None,
}

impl Enforcement {
    /// Returns the printed name.
    pub fn name(self) -> &'static str {
        match self {
            Self::CgroupV2 => "cgroup v2",
            Self::CgroupV1 => "cgroup v1",
            Self::Rlimits => "rlimits",
            Self::None => "none",
        }
    }
}

/// What one run of an agent used, and by what it was limited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceReport {
    pub enforcement: Enforcement,
    /// Limits of the session that nothing here enforces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_enforced: Vec<Resource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_memory_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
    /// Processes that the kernel killed because memory ran out.
    pub oom_kills: u64,
}

/// The kernel killed processes of an agent because memory ran out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OutOfMemory {
    pub kills: u64,
    /// None: the machine's memory ran out, not the session's.
    pub limit_bytes: Option<u64>,
    pub peak_bytes: Option<u64>,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit_bytes {
            Some(limit) => write!(f, "out of memory (limit {}", show_exactly(limit))?,
            None => f.write_str("out of memory (no limit")?,
        }
        match self.peak_bytes {
            Some(peak) => write!(f, ", peak {})", show_bytes(peak)),
            None => f.write_str(")"),
        }
    }
}

const UNITS: [(char, u32); 4] = [('T', 40), ('G', 30), ('M', 20), ('K', 10)];

/// Returns a size with the largest unit that says it with at most one decimal.
fn show_exactly(bytes: u64) -> String {
    let is_exact = |shift: u32| bytes >> shift > 0 && (u128::from(bytes) * 10).is_multiple_of(1 << shift);
    match UNITS.into_iter().find(|(_, shift)| is_exact(*shift)) {
        Some((unit, shift)) => show_in(bytes, unit, shift),
        None => show_bytes(bytes),
    }
}

/// Returns a size, rounded down, with the largest unit that it has at least one of.
pub fn show_bytes(bytes: u64) -> String {
    let fitting = UNITS.into_iter().find(|(_, shift)| bytes >> shift > 0);
    match fitting {
        Some((unit, shift)) => show_in(bytes, unit, shift),
        None => format!("{bytes}B"),
    }
}

fn show_in(bytes: u64, unit: char, shift: u32) -> String {
    let tenths = (u128::from(bytes) * 10) >> shift;
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{whole}{unit}"),
        (whole, tenth) => format!("{whole}.{tenth}{unit}"),
    }
}

/// Reads a size: a number, perhaps with decimals, and a unit of which each is 1024 times the one before.
pub fn parse_memory(text: &str) -> Result<u64, String> {
    let remedy = || format!("{text:?} is no size; write a number and K, M, G or T, such as 4G");
    let upper = text.trim().to_ascii_uppercase();
    let bare = upper.strip_suffix("IB").or_else(|| upper.strip_suffix('B')).unwrap_or(&upper);
    let unit = UNITS.into_iter().find_map(|(unit, shift)| Some((bare.strip_suffix(unit)?, shift)));
    let (number, shift) = unit.ok_or_else(remedy)?;
    let thousandths = parse_thousandths(number).ok_or_else(remedy)?;
    let bytes = (u128::from(thousandths) << shift) / 1_000;
    match u64::try_from(bytes) {
        Ok(bytes) if bytes < limits::MEMORY_LIMIT_MIN => Err(format!(
            "{text:?} is too little for any agent; the least is {}",
            show_bytes(limits::MEMORY_LIMIT_MIN)
        )),
        Ok(bytes) if bytes <= limits::MEMORY_LIMIT_MAX => Ok(bytes),
        _ => Err(format!(
            "{text:?} is more than any machine has; the most is {}",
            show_bytes(limits::MEMORY_LIMIT_MAX)
        )),
    }
}

fn parse_cpus(text: &str) -> Result<u64, String> {
    let range = limits::CPU_MILLIS_MIN..=limits::CPU_MILLIS_MAX;
    parse_thousandths(text.trim()).filter(|millis| range.contains(millis)).ok_or_else(|| {
        let (least, most) = (Resource::Cpus.show(*range.start()), Resource::Cpus.show(*range.end()));
        format!("{text:?} is no number of processors; write one from {least} to {most}, such as 2 or 0.5")
    })
}

fn parse_processes(text: &str) -> Result<u64, String> {
    let range = limits::PROCESSES_LIMIT_MIN..=limits::PROCESSES_LIMIT_MAX;
    let number = text.trim().parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| {
        let (least, most) = (range.start(), range.end());
        format!(
            "{text:?} is no number of processes; write a whole number from {least} to {most}, such as 500"
        )
    })
}

/// Reads a number with up to three decimals.
fn parse_thousandths(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(fraction) || fraction.len() > 3 {
        return None;
    }
    let fraction: u64 = format!("{fraction:0<3}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000)?.checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn amounts_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("4G", 4 << 30),
            ("4g", 4 << 30),
            (" 512M ", 512 << 20),
            ("1.5GiB", 3 << 29),
            ("65536K", 64 << 20),
            ("2TB", 2 << 40),
        ] {
            assert_eq!(parse_memory(text), Ok(bytes), "{text}");
        }
        assert_eq!(Resource::Cpus.parse("2"), Ok(2_000));
        assert_eq!(Resource::Cpus.parse("0.5"), Ok(500));
        assert_eq!(Resource::Processes.parse("500"), Ok(500));
    }

    #[test]
    fn an_amount_that_cannot_be_read_names_its_field_and_the_remedy() {
        for (resource, text, remedy) in [
            (Resource::Memory, "4", "such as 4G"),
            (Resource::Memory, "much", "such as 4G"),
            (Resource::Memory, "-1G", "such as 4G"),
            (Resource::Memory, "1.2345G", "such as 4G"),
            (Resource::Memory, "", "such as 4G"),
            (Resource::Memory, "1K", "the least is"),
            (Resource::Memory, "99999999999T", "the most is"),
            (Resource::Cpus, "0", "such as 2 or 0.5"),
            (Resource::Cpus, "two", "such as 2 or 0.5"),
            (Resource::Cpus, "1e3", "such as 2 or 0.5"),
            (Resource::Processes, "0", "such as 500"),
            (Resource::Processes, "1.5", "such as 500"),
            (Resource::Processes, "99999999999999999999", "such as 500"),
        ] {
            let mut config = BTreeMap::from([(resource.key().to_owned(), text.to_owned())]);
            let message = ResourceLimits::take(&mut config).unwrap_err().message;
            assert!(message.starts_with(&format!("provider_config.{}: ", resource.key())), "{message}");
            assert!(message.contains(remedy), "{message}");
        }
    }

    #[test]
    fn limits_are_merged_one_by_one() {
        let own = ResourceLimits { memory_bytes: Some(8), cpu_millis: None, processes: Some(1) };
        let other = ResourceLimits { memory_bytes: Some(4), cpu_millis: Some(2_000), processes: Some(9) };
        let or = ResourceLimits { memory_bytes: Some(8), cpu_millis: Some(2_000), processes: Some(1) };
        assert_eq!(own.or(other), or);
        let least = ResourceLimits { memory_bytes: Some(4), cpu_millis: Some(2_000), processes: Some(1) };
        assert_eq!(own.at_most(other), least);
        let message = own.check_at_most(&other, "the campaign").unwrap_err().message;
        assert!(
            message.starts_with("provider_config.limit_memory: the campaign allows at most 4B"),
            "{message}"
        );
        assert!(least.check_at_most(&other, "the campaign").is_ok());
    }

    #[test]
    fn limits_are_shown_as_they_are_typed() {
        let mut limits = ResourceLimits::default();
        assert_eq!(limits.to_string(), "none");
        limits.set(Resource::Memory, Some(3 << 29));
        limits.set(Resource::Cpus, Some(2_500));
        limits.set(Resource::Processes, Some(500));
        assert_eq!(limits.to_string(), "memory 1.5G, cpus 2.5, processes 500");
        let killed = OutOfMemory { kills: 1, limit_bytes: Some(4 << 30), peak_bytes: Some(4 << 30) };
        assert_eq!(killed.to_string(), "out of memory (limit 4G, peak 4G)");
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(millis in 10u64..1_000_000, processes in 1u64..4_000_000, gib in 1u64..4_096) {
            for (resource, amount) in
                [(Resource::Cpus, millis), (Resource::Processes, processes), (Resource::Memory, gib << 30)]
            {
                prop_assert_eq!(resource.parse(&resource.show(amount)), Ok(amount));
            }
        }

        #[test]
        fn a_merged_limit_never_exceeds_the_maximum(own: [Option<u32>; 3], most: [Option<u32>; 3]) {
            let limits = |from: [Option<u32>; 3]| {
                let [memory, cpus, processes] = from.map(|amount| amount.map(u64::from));
                ResourceLimits { memory_bytes: memory, cpu_millis: cpus, processes }
            };
            let (own, most) = (limits(own), limits(most));
            prop_assert!(own.at_most(most).check_at_most(&most, "").is_ok());
            prop_assert!(own.at_most(most).check_at_most(&own, "").is_ok());
        }

        #[test]
        fn no_text_breaks_the_reader(text in "\\PC{0,12}") {
            for resource in Resource::ALL {
                let _ = resource.parse(&text);
            }
        }
    }
}
