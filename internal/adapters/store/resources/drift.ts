// How a row says that it was edited behind the service's back: `spec_seen` follows the text of the spec, whoever writes
// it, and `spec_sum` is what the apply wrote. Comparing them reads no spec. A row without `spec_sum` says nothing.

import { drifted } from '../../../core/plan/plan.ts';

/** The hash of a row's spec as SQL, of no use to anyone who compares it where the spec has drifted. */
export const hashOrDrift = (alias: string): string =>
  `case when ${alias}.spec_sum <> ${alias}.spec_seen then '${drifted}' || ${alias}.spec_hash else ${alias}.spec_hash end`;

/**
 * Those of a project's ($1) specs with these ids ($2) that fit into so many bytes ($3), and one more: whoever reads a fleet's
 * reads it in as many statements as its size asks for, and a common one in one.
 */
export const specsWithin = (table: string): string => `select id, spec from (
    select id, spec, sum(octet_length(spec::text)) over (order by id rows between unbounded preceding and 1 preceding) as before
      from ${table} where project_id = $1::uuid and id = any($2::uuid[])) t
  where coalesce(before, 0) < $3::bigint`;
