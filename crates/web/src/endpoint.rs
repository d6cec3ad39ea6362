//! Where a server listens.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve on {address}: {source}; choose another port")]
pub struct AddressError {
    /// The address that was requested.
    pub address: String,
    /// The error of the operating system.
    pub source: std::io::Error,
}

/// Where a server listens, and the token that its clients need.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The address, with the port that was found where any was requested.
    pub address: SocketAddr,
    /// What clients must send; none on addresses that only this machine reaches.
    pub token: Option<String>,
}

impl Endpoint {
    /// What to open in a browser on this machine. The token is part of it where one is needed.
    pub fn url(&self) -> String {
        match self.address.ip() {
            ip if ip.is_unspecified() => self.url_of("localhost"),
            ip => self.url_of(&host_of(ip)),
        }
    }

    /// What to open in a browser on another machine; `None` where no other can reach this one.
    pub fn url_for_others(&self) -> Option<String> {
        match self.address.ip() {
            ip if ip.is_loopback() => None,
            ip if ip.is_unspecified() => outward_address(ip).map(|ip| self.url_of(&host_of(ip))),
            ip => Some(self.url_of(&host_of(ip))),
        }
    }

    fn url_of(&self, host: &str) -> String {
        let token = self.token.as_ref().map(|token| format!("?token={token}")).unwrap_or_default();
        format!("http://{host}:{}/{token}", self.address.port())
    }
}

/// An address as the host of a URL.
pub fn host_of(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

/// The address that this machine sends from, which is the one that others most likely reach it by.
fn outward_address(unspecified: IpAddr) -> Option<IpAddr> {
    // Connecting a datagram socket sends nothing: the system only looks up its route. The targets are for documentation.
    let route = |from: IpAddr, to: IpAddr| {
        let socket = UdpSocket::bind((from, 0)).ok()?;
        socket.connect((to, 9)).ok()?;
        socket.local_addr().ok().map(|address| address.ip()).filter(|ip| !ip.is_unspecified() && !ip.is_loopback())
    };
    let v4 = || route(Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(192, 0, 2, 1).into());
    let v6 = || route(Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into());
    if unspecified.is_ipv4() { v4() } else { v6().or_else(v4) }
}
