//! Frames as they come through a tunnel or from another relay, in both profiles and at both ends; and what devices and machines send to
//! join, pair and renew. An end neither fails nor holds more calls than there are ids, and forgets all of them when it ends.

use std::sync::Arc;

use anyhow::{Result, ensure};
use prost::Message as _;
use tonic::Code;
use tunnel::ticket::{EnrolmentCode, PairingLine, RelayCode};
use tunnel::{CallFailure, CallOrigin, Link, LinkEvent, LinkSide, renewal};
use wire::betcode::v1::tunnel_frame::Payload;
use wire::betcode::v1::{
    CallField, CallHead, CallTail, ErrorFrame, StreamFrame, TunnelControl, TunnelFrame, TunnelHeartbeat,
};
use wire::obey::v1::{
    ClusterMachine, ClusterUser, EnrolMachineRequest, MachineRoute, PairDeviceRequest, PipeChunk,
    RenewDeviceRequest, RenewExpiredCertificateRequest,
};

use super::kind;
use crate::Target;

/// Bytes before each frame of an input: its length.
const LENGTH_BYTES: usize = 2;

/// Frames of a tunnel: the first byte says at which end, the rest is frames, each after its length.
pub(super) struct TunnelFrames {
    runtime: tokio::runtime::Runtime,
}

impl TunnelFrames {
    pub(super) fn new() -> Result<Self> {
        Ok(Self { runtime: tokio::runtime::Builder::new_current_thread().enable_all().build()? })
    }
}

impl Target for TunnelFrames {
    fn name(&self) -> &'static str {
        "tunnel"
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let head = CallHead {
            verb: "POST".to_owned(),
            path: "/betcode.v1.AgentService/Converse".to_owned(),
            fields: vec![CallField { name: "content-type".to_owned(), value: b"application/grpc".to_vec() }],
            ..CallHead::default()
        };
        let data =
            |data: &[u8], end_of_stream| Payload::Stream(StreamFrame { data: data.to_vec(), end_of_stream });
        let control =
            |kind, bytes| Payload::Control(TunnelControl { r#type: kind, bytes, ..TunnelControl::default() });
        let full = [
            Payload::Head(head),
            data(b"\0\0\0\0\x02hi", false),
            control(101, 4096),
            data(b"", true),
            control(100, 0),
        ];
        let answers = [
            Payload::Head(CallHead { status: 200, ..CallHead::default() }),
            data(&[7; 300], false),
            Payload::Tail(CallTail::default()),
        ];
        let basic = [Payload::GrpcRequest(b"hi".to_vec()), data(b"more", true)];
        let others = [
            Payload::GrpcResponse(b"hi".to_vec()),
            Payload::Error(ErrorFrame { code: "NOT_FOUND".to_owned(), message: "no".to_owned() }),
            Payload::Heartbeat(TunnelHeartbeat::default()),
            control(1, 0),
            control(3, 0),
        ];
        let mut all = Vec::new();
        for (id, payloads) in
            [("q", &full[..]), ("r-1", &answers[..]), ("q", &basic[..]), ("r-2", &others[..])]
        {
            for side in [0, 1] {
                all.push(input(side, id, payloads));
            }
        }
        all
    }

    fn words(&self) -> &'static [&'static str] {
        &[
            "r-1",
            "r-2",
            "q",
            "AgentService",
            "Converse",
            "betcode.v1.",
            "POST",
            "/",
            "grpc-status",
            "CANCELLED",
        ]
    }

    fn run(&mut self, input: &[u8]) -> Result<u64> {
        let [side, rest @ ..] = input else { return Ok(0) };
        let side = if side % 2 == 0 { LinkSide::Relay } else { LinkSide::Machine };
        self.runtime.block_on(feed(side, rest))
    }
}

/// Writes frames of one call after each other.
fn input(side: u8, id: &str, payloads: &[Payload]) -> Vec<u8> {
    let mut all = vec![side];
    for (at, payload) in payloads.iter().enumerate() {
        let frame = TunnelFrame {
            request_id: id.to_owned(),
            sequence: at as u64 + 1,
            service_name: "AgentService".to_owned(),
            method_name: "Converse".to_owned(),
            payload: Some(payload.clone()),
        };
        let bytes = frame.encode_to_vec();
        all.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
        all.extend_from_slice(&bytes);
    }
    all
}

/// Gives the frames to an end, which has two calls under way if it makes calls. Returns a number for what happened.
async fn feed(side: LinkSide, mut rest: &[u8]) -> Result<u64> {
    let (link, _frames) = Link::new(side, "r");
    let mut calling = Vec::new();
    if side == LinkSide::Relay {
        for is_basic in [false, true] {
            let link = Arc::clone(&link);
            let request = http::Request::post("/betcode.v1.AgentService/Converse")
                .header("content-type", "application/grpc")
                .body(String::new())?;
            calling.push(tokio::spawn(async move {
                link.forward(request, &CallOrigin::default(), is_basic).await.is_ok()
            }));
            tokio::task::yield_now().await;
        }
    }
    let (mut calls, mut ids, mut how) = (Vec::new(), std::collections::HashSet::new(), 0_u64);
    while let Some((length, more)) = rest.split_first_chunk::<LENGTH_BYTES>() {
        let length = usize::from(u16::from_be_bytes(*length)).min(more.len());
        let (bytes, after) = more.split_at(length);
        rest = after;
        let Ok(frame) = TunnelFrame::decode(bytes) else {
            how |= 1;
            continue;
        };
        ids.insert(frame.request_id.clone());
        how |= match link.receive(frame) {
            LinkEvent::Call(call) => {
                calls.push(call);
                2
            }
            LinkEvent::Heartbeat => 4,
            LinkEvent::Drain => 8,
            LinkEvent::Handled => 16,
        };
        let active = link.counts().active;
        ensure!(active <= ids.len() + calling.len(), "{active} calls of {} ids", ids.len());
    }
    let counts = link.counts();
    how |= counts.opened.min(7) << 8 | counts.ignored.min(15) << 12 | (counts.active as u64).min(7) << 16;
    link.close(&CallFailure::new(Code::Unavailable, "over"));
    ensure!(link.counts().active == 0, "calls are left at an end that is closed");
    for call in calling {
        // Each of them has ended: nobody waits for ever.
        how |= u64::from(call.await?) << 20;
    }
    Ok(how)
}

/// Messages with which machines, devices and relays join, renew and share what they know; and what people copy.
pub(super) struct Enrolment;

impl Target for Enrolment {
    fn name(&self) -> &'static str {
        "enrolment"
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let (url, pin, secret) = ("https://r:1".to_owned(), "ab".to_owned(), "cd".to_owned());
        let code = EnrolmentCode { url: url.clone(), pin: pin.clone(), secret: secret.clone() }.to_string();
        let relay = RelayCode { url: url.clone(), pin: pin.clone(), secret: secret.clone() }.to_string();
        let line = PairingLine {
            url,
            relay_pin: pin.clone(),
            token: "t".to_owned(),
            machine: "mach_1".to_owned(),
            machine_pin: pin,
            secret,
        };
        let key = tunnel::keys::KeyRequest::new("box").map(|key| key.csr_pem).unwrap_or_default();
        let renew = RenewDeviceRequest {
            csr_pem: key.clone(),
            certificate_pem: "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n".to_owned(),
            signature: vec![48, 6, 2, 1, 1, 2, 1, 1],
        };
        let pair = PairDeviceRequest {
            proof: vec![1; 32],
            name: "box".to_owned(),
            csr_pem: key,
            host_id: "h".to_owned(),
        };
        let tagged = |tag: u8, bytes: &[u8]| [&[tag], bytes].concat();
        vec![
            tagged(0, code.as_bytes()),
            tagged(1, relay.as_bytes()),
            tagged(2, line.to_string().as_bytes()),
            tagged(3, &renew.encode_to_vec()),
            tagged(4, &pair.encode_to_vec()),
            tagged(
                5,
                &MachineRoute { relay: "r".to_owned(), epoch: 7, ..Default::default() }.encode_to_vec(),
            ),
            tagged(6, &ClusterMachine { id: "mach_1".to_owned(), ..Default::default() }.encode_to_vec()),
            tagged(7, &PipeChunk { bytes: vec![22, 3, 1, 0, 5] }.encode_to_vec()),
        ]
    }

    fn words(&self) -> &'static [&'static str] {
        &["obey-machine.", "obey-relay.", "obey-device.", "-----BEGIN CERTIFICATE-----\n", "eyJ", "=="]
    }

    fn run(&mut self, input: &[u8]) -> Result<u64> {
        let [tag, body @ ..] = input else { return Ok(0) };
        let text = String::from_utf8_lossy(body);
        let parsed = match tag % 8 {
            0 => EnrolmentCode::parse(&text).map(|code| code.to_string()),
            1 => RelayCode::parse(&text).map(|code| code.to_string()),
            2 => PairingLine::parse(&text).map(|line| line.to_string()),
            other => return Ok(u64::from(messages(other, body)?) << 3 | u64::from(other)),
        };
        match parsed {
            // What is read is written again as something that is read as the same.
            Ok(written) => {
                let again = match tag % 8 {
                    0 => EnrolmentCode::parse(&written).map(|code| code.to_string()),
                    1 => RelayCode::parse(&written).map(|code| code.to_string()),
                    _ => PairingLine::parse(&written).map(|line| line.to_string()),
                };
                ensure!(again.is_ok_and(|again| again == written), "a ticket changes when it is copied");
                Ok(u64::from(tag % 8) << 8)
            }
            Err(error) => {
                ensure!(error.message.len() < 400, "a refusal is {} bytes long", error.message.len());
                Ok(kind(&error))
            }
        }
    }
}

/// Reads a message of a kind, and where it proves something, checks the proof. Returns a number for the outcome.
fn messages(kind: u8, body: &[u8]) -> Result<u8> {
    Ok(match kind {
        3 => match RenewDeviceRequest::decode(body) {
            Ok(request) => {
                ensure!(renewal::check(b"material", request).is_none(), "a proof was forged");
                1
            }
            Err(_) => 0,
        },
        4 => {
            u8::from(PairDeviceRequest::decode(body).is_ok())
                | u8::from(EnrolMachineRequest::decode(body).is_ok()) << 1
        }
        5 => u8::from(MachineRoute::decode(body).is_ok()),
        6 => {
            u8::from(ClusterMachine::decode(body).is_ok()) | u8::from(ClusterUser::decode(body).is_ok()) << 1
        }
        _ => {
            u8::from(PipeChunk::decode(body).is_ok())
                | u8::from(RenewExpiredCertificateRequest::decode(body).is_ok()) << 1
        }
    })
}
