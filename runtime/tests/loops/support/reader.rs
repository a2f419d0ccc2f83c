//! Reading the outbox of a test.

use outbox::Filter;
use outbox_runtime::store::{Page, PageEnd, Range, Reader, StoreError};

use super::{MemoryStore, State};

/// Reads what a filter takes.
pub(crate) struct MemoryReader(MemoryStore, Filter);

impl MemoryReader {
    pub(super) fn new(store: &MemoryStore, filter: &Filter) -> Self {
        Self(store.clone(), filter.clone())
    }

    pub(super) fn filter(&self) -> &Filter {
        &self.1
    }
}

impl Reader for MemoryReader {
    async fn read(&mut self, range: Range) -> Result<Page, StoreError> {
        let mut state = self.0.up()?;
        state.reads += 1;
        Ok(state.page(&self.1, range))
    }
}

impl State {
    pub(super) fn page(&self, filter: &Filter, range: Range) -> Page {
        let (mut events, mut bytes, mut scanned, mut end) = (Vec::new(), 0, 0, range.after);
        let mut ended_by = PageEnd::Horizon;
        for (position, event) in &self.events {
            if *position <= range.after || position.txid >= range.horizon {
                continue;
            }
            scanned += 1;
            if events.len() == range.max_events || scanned == self.max_scan {
                ended_by = PageEnd::Rows;
                break;
            }
            bytes += event.payload().len();
            if bytes > range.max_bytes && !events.is_empty() {
                ended_by = PageEnd::Bytes;
                break;
            }
            end = *position;
            if filter.takes(event) {
                events.push(event.clone());
            }
        }
        Page {
            events,
            end,
            ended_by,
        }
    }
}
