//! Converts settings from clients. Pure; errors name the invalid field.

use std::path::{Path, PathBuf};

use domain::Error;
use runtime::settings::{PermissionSettings, SessionDefaults, SettingsLayer, SettingsScope};
use wire::betcode::v1 as pb;

/// Parses the name of a scope; `None`: the effective settings.
pub(super) fn scope(text: &str, default_folder: Option<&Path>) -> Result<Option<SettingsScope>, Error> {
    Ok(Some(match text {
        "" | "effective" => return Ok(None),
        "default" => SettingsScope::Default,
        "global" => SettingsScope::Global,
        "environment" => SettingsScope::Environment,
        "flag" => SettingsScope::Flag,
        "project" => SettingsScope::Project(default_folder.map(Path::to_owned).ok_or_else(|| {
            Error::invalid("scope", "this daemon has no project of its own; write project:/the/folder")
        })?),
        other => match other.strip_prefix("project:").map(PathBuf::from) {
            Some(folder) if folder.is_absolute() => SettingsScope::Project(folder),
            Some(folder) => {
                return Err(Error::invalid(
                    "scope",
                    format_args!("{} is no absolute path", folder.display()),
                ));
            }
            None => {
                return Err(Error::invalid(
                    "scope",
                    format_args!(
                        "{other:?} is none; use default, global, project, project:/a/folder, environment or flag"
                    ),
                ));
            }
        },
    }))
}

/// Parses a change; fields that are not set stay unchanged.
pub(super) fn change(settings: Option<pb::Settings>) -> Result<SettingsLayer, Error> {
    let Some(settings) = settings else { return Err(Error::invalid("settings", "is required")) };
    if settings.daemon.is_some_and(|daemon| daemon != pb::DaemonSettings::default()) {
        return Err(Error::invalid(
            "settings.daemon",
            "belongs to the daemon's own configuration; see `obey config show` and `obey serve --config`",
        ));
    }
    let sessions = settings.sessions.unwrap_or_default();
    let permissions = settings.permissions.unwrap_or_default();
    let folders = permissions.auto_approve_directories;
    let change = SettingsLayer {
        sessions: SessionDefaults {
            default_model: sessions.default_model,
            auto_compact: sessions.auto_compact,
            auto_compact_threshold: sessions.auto_compact_threshold,
            max_messages_per_session: sessions.max_messages_per_session,
        },
        permissions: PermissionSettings {
            connected_timeout_secs: permissions.connected_timeout_secs,
            disconnected_timeout_secs: permissions.disconnected_timeout_secs,
            enable_auto_approve: permissions.enable_auto_approve,
            // A list cannot be unset on the wire, so an empty one means no change.
            auto_approve_directories: (!folders.is_empty()).then_some(folders),
            activity_refresh_enabled: permissions.activity_refresh_enabled,
            ..PermissionSettings::default()
        },
        feature_flags: settings.feature_flags.into_iter().collect(),
    };
    if change == SettingsLayer::default() {
        return Err(Error::invalid("settings", "sets nothing"));
    }
    Ok(change)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_read_by_name() {
        let folder = Path::new("/tmp");
        assert_eq!(scope("", None).unwrap(), None);
        assert_eq!(scope("global", None).unwrap(), Some(SettingsScope::Global));
        assert_eq!(scope("project", Some(folder)).unwrap(), Some(SettingsScope::Project(folder.to_owned())));
        assert_eq!(scope("project:/tmp", None).unwrap(), Some(SettingsScope::Project(folder.to_owned())));
        for wrong in ["Global", "project", "project:x", "user"] {
            assert!(scope(wrong, None).unwrap_err().message.starts_with("scope: "), "{wrong}");
        }
    }

    #[test]
    fn a_change_says_something_and_nothing_of_the_daemon() {
        assert!(change(None).is_err());
        assert!(change(Some(pb::Settings::default())).unwrap_err().message.contains("sets nothing"));
        let daemon = Some(pb::DaemonSettings { port: Some(1), ..Default::default() });
        let error = change(Some(pb::Settings { daemon, ..Default::default() })).unwrap_err();
        assert!(error.message.starts_with("settings.daemon: "), "{error}");
        let sessions = Some(pb::SessionSettings { auto_compact: Some(false), ..Default::default() });
        let read = change(Some(pb::Settings { sessions, ..Default::default() })).unwrap();
        assert_eq!(read.sessions.auto_compact, Some(false));
    }
}
