//! Names of hosts: Slurm's compressed lists, and names with ports.

use super::refused;
use crate::error::Result;
use crate::etcd;

/// `host:port`, with that port where there is none. IPv6 addresses with a port are in brackets.
pub(super) fn with_port(name: &str, port: u16) -> Result<String> {
    let name = name.trim();
    if let Some(name) = etcd::with_port(name, with_port) {
        return name;
    }
    let wrong =
        || refused(format!("the coordinator \"{name}\" must be a host, or a host and a port such as node1:{port}"));
    if name.is_empty() || name.contains(char::is_whitespace) || name.contains('/') {
        return wrong();
    }
    if let Some(rest) = name.strip_prefix('[') {
        return match rest.split_once(']') {
            Some((_, "")) => Ok(format!("{name}:{port}")),
            Some((_, after)) if after.strip_prefix(':').is_some_and(is_port) => Ok(name.into()),
            _ => wrong(),
        };
    }
    match name.split_once(':') {
        None => Ok(format!("{name}:{port}")),
        Some((_, rest)) if rest.contains(':') => Ok(format!("[{name}]:{port}")),
        Some((host, text)) if !host.is_empty() && is_port(text) => Ok(name.into()),
        Some(_) => wrong(),
    }
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok_and(|port| port > 0)
}

/// The first host of a list as Slurm writes it: `gpu[007-009,12],login1` begins with `gpu007`.
pub(super) fn first_host(list: &str) -> Option<String> {
    let mut depth = 0;
    let end = list.find(|letter| {
        depth += i32::from(letter == '[') - i32::from(letter == ']');
        letter == ',' && depth == 0
    });
    let mut host = list[..end.unwrap_or(list.len())].trim().to_string();
    while let Some(open) = host.find('[') {
        let close = open + host[open..].find(']')?;
        let first: String = host[open + 1..close].chars().take_while(char::is_ascii_digit).collect();
        if first.is_empty() {
            return None;
        }
        host.replace_range(open..=close, &first);
    }
    (!host.is_empty() && !host.contains(']')).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slurms_lists_begin_with_their_first_host() {
        let first = |list: &str| first_host(list).unwrap_or_default();
        assert_eq!(first("gpu[007-009,12],login1"), "gpu007");
        assert_eq!(first("login1,gpu[1-2]"), "login1");
        assert_eq!(first("rack[2-3]-n[04,6]"), "rack2-n04");
        assert_eq!(first("localhost"), "localhost");
        assert_eq!((first_host(""), first_host("gpu[x]"), first_host("gpu[1")), (None, None, None));
    }

    #[test]
    fn a_port_is_added_where_there_is_none() {
        let name = |name: &str| with_port(name, 7).unwrap_or_default();
        assert_eq!(
            (name("a"), name("a.b:9"), name("::1"), name("[::1]")),
            ("a:7".into(), "a.b:9".into(), "[::1]:7".into(), "[::1]:7".into())
        );
        assert_eq!(name("[::1]:9"), "[::1]:9");
        assert_eq!(
            (name("etcd://a"), name("etcd://a:9/flowers"), name("etcd://[::1]/b")),
            ("etcd://a:2379/run".into(), "etcd://a:9/flowers".into(), "etcd://[::1]:2379/b".into())
        );
        assert!(["etcd://", "etcd://a/b/c", "etcd://a:b", "etcds://a"].iter().all(|name| with_port(name, 7).is_err()));
        assert!(
            ["", "a:", "a:b", "a:70000", ":9", "http://a", "a b", "a:0"].iter().all(|name| with_port(name, 7).is_err())
        );
    }
}
