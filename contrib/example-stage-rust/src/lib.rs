//! pepsi-stage-plus-address: takes the detail out of recipients of our domains, so that joe+shop@example.test reaches joe@example.test.
//! An example of a stage module in Rust: what crosses the border is `#[repr(C)]` (abi.rs), and nothing of the host is linked.
//!
//!     [stage-plus]
//!     PROGRAM = pepsi-stage-plus-address
//!     DOMAINS = example.test            # default: LOCAL_DOMAINS
//!     SEPARATOR = +
//!     NEXT_STAGE = aliases
mod abi;

use abi::*;
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_void};
use std::ptr::null;

/// A constant that is NUL-terminated.
macro_rules! z {
    ($text:literal) => {
        concat!($text, "\0").as_ptr() as *const c_char
    };
}

static OPTIONS: Shared<[OptionEntry; 2]> = Shared([
    OptionEntry {
        name: z!("DOMAINS"),
        kind: OPT_LIST,
        flags: 0,
        def: null(),
        min: 0,
        max: 0,
        choices: null(),
        help: z!("domains whose recipients have details; default: LOCAL_DOMAINS"),
    },
    OptionEntry {
        name: z!("SEPARATOR"),
        kind: OPT_STRING,
        flags: 0,
        def: z!("+"),
        min: 0,
        max: 0,
        choices: null(),
        help: z!("what stands between the name and the detail"),
    },
]);

struct Worker {
    domains: Vec<String>,
    separator: String,
}

/// The host's text; it lives until the hook returns, so it is copied here.
fn text(p: *const c_char) -> Option<String> {
    if p.is_null() {
        return None;
    }
    Some(unsafe { CStr::from_ptr(p) }.to_string_lossy().into_owned())
}

fn octets<'a>(s: Str) -> &'a [u8] {
    if s.n == 0 {
        return &[];
    }
    unsafe { std::slice::from_raw_parts(s.p as *const u8, s.n) }
}

impl Worker {
    /// The address without its detail; None: it has none. Quoted local parts are left alone, and so is what would be empty.
    fn plain(&self, address: &[u8]) -> Option<Vec<u8>> {
        let at = address.iter().rposition(|c| *c == b'@')?;
        let (local, domain) = (&address[..at], &address[at + 1..]);
        if local.first() == Some(&b'"') || !self.domains.iter().any(|d| d.as_bytes().eq_ignore_ascii_case(domain)) {
            return None;
        }
        let sep = self.separator.as_bytes();
        let cut = local.windows(sep.len()).position(|w| w == sep)?;
        if cut == 0 {
            return None;
        }
        Some([&local[..cut], b"@", domain].concat())
    }
}

extern "C" fn validate(host: *const Host, conf: *const Conf, report: *mut Report) -> i32 {
    let host = unsafe { &*host };
    if text((host.conf_str)(conf, z!("SEPARATOR"))).map_or(true, |s| s.is_empty() || s.contains('@')) {
        (host.report)(report, z!("SEPARATOR"), z!("must not be empty nor hold an @"));
    }
    OK
}

extern "C" fn open(host: *const Host, conf: *const Conf, ret: *mut *mut c_void) -> i32 {
    let host = unsafe { &*host };
    let domains = text((host.conf_str)(conf, z!("DOMAINS")))
        .or_else(|| text((host.conf_global)(conf, z!("pepsi"), z!("LOCAL_DOMAINS"))))
        .unwrap_or_default();
    let worker = Box::new(Worker {
        domains: domains.split_whitespace().map(str::to_owned).collect(),
        separator: text((host.conf_str)(conf, z!("SEPARATOR"))).unwrap_or_else(|| "+".to_owned()),
    });
    unsafe { *ret = Box::into_raw(worker) as *mut c_void };
    OK
}

extern "C" fn process(worker: *mut c_void, host: *const Host, msg: *mut Msg) -> i32 {
    let (worker, host) = unsafe { (&*(worker as *const Worker), &*host) };
    let mut changed = 0;
    let list: Vec<Vec<u8>> = (0..(host.n_rcpt)(msg))
        .map(|i| {
            let old = octets((host.rcpt)(msg, i));
            worker.plain(old).map_or_else(
                || old.to_vec(),
                |new| {
                    changed += 1;
                    new
                },
            )
        })
        .collect();
    if changed > 0 {
        // the same mailbox twice is one recipient
        let mut unique: Vec<Vec<u8>> = Vec::with_capacity(list.len());
        for address in list {
            if !unique.contains(&address) {
                unique.push(address);
            }
        }
        let strs: Vec<Str> = unique.iter().map(|a| Str { p: a.as_ptr() as *const c_char, n: a.len() }).collect();
        let rc = (host.set_rcpt_to)(msg, strs.as_ptr(), strs.len());
        if rc != OK {
            return rc;
        }
        if let Ok(line) = CString::new(format!("{changed} recipients lost a detail")) {
            (host.log)(msg, LOG_DEBUG, line.as_ptr());
        }
    }
    (host.advance)(msg)
}

extern "C" fn close(worker: *mut c_void) {
    if !worker.is_null() {
        drop(unsafe { Box::from_raw(worker as *mut Worker) });
    }
}

/// The one symbol a module exports.
#[no_mangle]
#[allow(non_upper_case_globals)]
pub static pepsi_stage_descriptor: Stage = Stage {
    abi: Abi { size: std::mem::size_of::<Stage>() as u32, major: ABI_MAJOR, minor: ABI_MINOR },
    name: z!("pepsi-stage-plus-address"),
    version: z!("1.0"),
    license: z!("Apache-2.0"),
    summary: z!("takes the detail out of recipients (joe+shop becomes joe)"),
    load_class: LOAD_METADATA,
    option_size: std::mem::size_of::<OptionEntry>() as u32,
    caps: 0,
    options: OPTIONS.0.as_ptr(),
    n_options: 2,
    validate: Some(validate),
    open: Some(open),
    process: Some(process),
    process_batch: None,
    can_fuse: None,
    close: Some(close),
};
