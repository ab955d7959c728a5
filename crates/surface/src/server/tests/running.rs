//! A server to test against, and helpers for its clients.

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use domain::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::service::Routes;
use tonic::transport::{Channel, Endpoint};

use super::private_home;
use crate::peer::Access;
use crate::server::{DaemonLock, Listen, Server};

const DEADLINE: Duration = Duration::from_secs(30);

pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.expect("not in time")
}

/// A server under test, on a socket and on a port.
pub struct Running {
    home: tempfile::TempDir,
    pub socket: PathBuf,
    pub port: u16,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<Result<(), Error>>,
}

impl Running {
    pub fn start() -> Self {
        Self::start_with(Routes::default(), Access::default())
    }

    pub fn start_with(routes: Routes, access: Access) -> Self {
        let home = private_home();
        let socket = home.path().join("daemon.sock");
        let lock = DaemonLock::acquire(&home.path().join("lock")).unwrap();
        let listens = [Listen::Unix(socket.clone()), Listen::Tcp("127.0.0.1:0".parse().unwrap())];
        let bound = Server::bind(&listens, &lock, access).unwrap();
        let Listen::Tcp(address) = bound.addresses()[1] else { panic!("second is TCP") };
        let (stop, stopped) = oneshot::channel();
        let shutdown = async {
            let _ = stopped.await;
        };
        let serving = tokio::spawn(bound.serve(routes, shutdown));
        Self { home, socket, port: address.port(), stop: Some(stop), serving }
    }

    pub fn endpoints(&self) -> [Endpoint; 2] {
        let unix = Endpoint::try_from(format!("unix://{}", self.socket.display())).unwrap();
        let tcp = Endpoint::try_from(format!("http://127.0.0.1:{}", self.port)).unwrap();
        [unix, tcp]
    }

    pub async fn channels(&self) -> Vec<Channel> {
        let mut channels = Vec::new();
        for endpoint in self.endpoints() {
            channels.push(soon(endpoint.connect()).await.unwrap());
        }
        channels
    }

    /// Sends one HTTP/1.1 request over both listeners and returns the two answers.
    pub async fn plain(&self, request: &str) -> [String; 2] {
        let request = request.replace("HOST", &format!("127.0.0.1:{}", self.port));
        let unix = UnixStream::connect(&self.socket).await.unwrap();
        let tcp = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        [exchange(unix, &request).await, exchange(tcp, &request).await]
    }

    pub async fn stop(mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        soon(self.serving).await.unwrap().unwrap();
        assert!(!self.socket.exists());
        drop(self.home);
    }
}

/// Sends a request and returns everything that came back, be the end clean or not.
pub async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = soon(stream.read_to_end(&mut answer)).await;
    String::from_utf8(answer).unwrap()
}
