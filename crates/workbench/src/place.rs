//! The owner of an entry: a project, a team, an organisation. Tenants never see each other's entries.

use domain::Error;

/// Where a session works: determines what it sees and who owns what it stores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkPlace {
    pub tenant: String,
    pub team: String,
    /// The project's root.
    pub project: String,
}

/// How widely something is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Project,
    Team,
    Org,
}

impl Scope {
    /// Parses contextd's words; empty means `otherwise`.
    pub fn parse(text: &str, otherwise: Self) -> Result<Self, Error> {
        match text {
            "" => Ok(otherwise),
            "project" => Ok(Self::Project),
            "team" => Ok(Self::Team),
            "org" | "all" => Ok(Self::Org),
            other => {
                Err(Error::invalid("scope", format_args!("{other:?} is none of project, team, org, all")))
            }
        }
    }

    /// Returns contextd's word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Team => "team",
            Self::Org => "org",
        }
    }
}

impl WorkPlace {
    /// Whether an entry of another place is visible from here at a scope.
    pub fn sees(&self, other: &Self, scope: Scope) -> bool {
        self.tenant == other.tenant
            && match scope {
                Scope::Project => self.project == other.project,
                Scope::Team => self.team == other.team,
                Scope::Org => true,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(tenant: &str, team: &str, project: &str) -> WorkPlace {
        WorkPlace { tenant: tenant.into(), team: team.into(), project: project.into() }
    }

    #[test]
    fn scopes_widen_and_tenants_stay_apart() {
        let here = place("t", "a", "/p");
        assert!(here.sees(&place("t", "a", "/p"), Scope::Project));
        assert!(!here.sees(&place("t", "a", "/q"), Scope::Project));
        assert!(here.sees(&place("t", "a", "/q"), Scope::Team));
        assert!(!here.sees(&place("t", "b", "/q"), Scope::Team));
        assert!(here.sees(&place("t", "b", "/q"), Scope::Org));
        assert!(!here.sees(&place("u", "a", "/p"), Scope::Org));
    }
}
