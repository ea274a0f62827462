// How a row says that it was edited behind the service's back: `spec_seen` follows the text of the spec, whoever writes
// it, and `spec_sum` is what the apply wrote. Comparing them reads no spec. A row without `spec_sum` says nothing.

import { drifted } from '../../../core/plan/plan.ts';

/** The hash of a row's spec as SQL, of no use to anyone who compares it where the spec has drifted. */
export const hashOrDrift = (alias: string): string =>
  `case when ${alias}.spec_sum <> ${alias}.spec_seen then '${drifted}' || ${alias}.spec_hash else ${alias}.spec_hash end`;
