//! `plugin_load` and `plugin_load_add`: which plugins a server without plugins may pass over.
//!
//! What a plugin adds as an engine, a table or a function is missing where it is used. A plugin that checks passwords, audits,
//! encrypts or authenticates is another matter: the start is refused.

/// Plugins that the server must not pass over, by the beginning of their names or files, and what is missing.
const REFUSED: &[(&str, &str)] = &[
    ("simple_password_check", PASSWORDS),
    ("cracklib_password_check", PASSWORDS),
    ("password_reuse_check", PASSWORDS),
    ("validate_password", PASSWORDS),
    ("server_audit", AUDIT),
    ("audit_log", AUDIT),
    ("mysql_firewall", AUDIT),
    ("connection_control", "failed attempts to connect are not slowed down"),
    ("file_key_management", ENCRYPTION),
    ("hashicorp_key_management", ENCRYPTION),
    ("aws_key_management", ENCRYPTION),
    ("keyring", ENCRYPTION),
    ("semisync", REPLICATION),
    ("rpl_semi_sync", REPLICATION),
    ("group_replication", REPLICATION),
];

const PASSWORDS: &str = "passwords are not checked";
const AUDIT: &str = "there is no audit log yet";
const ENCRYPTION: &str = "there is no encryption at rest yet";
const REPLICATION: &str = "there is no replication yet";

/// Why a list of plugins, `name=file;file`, has no effect; an error where one of them must not be passed over.
pub fn check(list: &str) -> Result<&'static str, String> {
    for plugin in list.split(';').map(str::trim).filter(|plugin| !plugin.is_empty()) {
        let words = plugin.split('=').map(|word| word.trim().to_ascii_lowercase());
        let words: Vec<String> =
            words.map(|word| word.trim_start_matches("component_").to_string()).collect();
        let is_of = |begin: &str| words.iter().any(|word| word.starts_with(begin));
        if let Some((_, why)) = REFUSED.iter().find(|(begin, _)| is_of(begin)) {
            return Err(format!("the plugin '{plugin}' cannot be loaded: {why}"));
        }
    }
    Ok("there are no plugins")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_of_safety_are_refused() {
        assert!(check("provider_bzip2").is_ok());
        assert!(check("ha_rocksdb.so;ed25519=auth_ed25519").is_ok());
        assert!(check("server_audit=server_audit.so").unwrap_err().contains("audit"));
        assert!(check("ha_connect; cracklib_password_check.so").unwrap_err().contains("cracklib"));
    }
}
