//! `xid8` on the wire: eight bytes, big-endian.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueRef};
use sqlx::{Decode, Encode, Postgres, Type};

use crate::Txid;

const XID8: Oid = Oid(5069);
const XID8_ARRAY: Oid = Oid(271);

impl Type<Postgres> for Txid {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(XID8)
    }

    fn compatible(other: &PgTypeInfo) -> bool {
        other.oid() == Some(XID8)
    }
}

impl PgHasArrayType for Txid {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(XID8_ARRAY)
    }
}

impl Encode<'_, Postgres> for Txid {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        buffer.extend_from_slice(&self.0.to_be_bytes());
        Ok(IsNull::No)
    }
}

impl Decode<'_, Postgres> for Txid {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        Ok(Self(u64::from_be_bytes(value.as_bytes()?.try_into()?)))
    }
}
