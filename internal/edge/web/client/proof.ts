// How a command proves to an endpoint what it posts; secrets by name alone.

import type { Endpoint } from '../../../../schemas/api/endpoints.ts';

const bearer = ' -H "authorization: Bearer $SECRET"';
const signature = ` -H "x-svc-signature-256: $(printf %s "$BODY" | openssl dgst -sha256 -hmac "$SECRET" -r | cut -d' ' -f1)"`;

/** The command that `curl` makes of a body, which is one word of a shell, and of the options of its proof. */
export function proven(auth: Endpoint['auth'], body: string, curl: (body: string, proof: string) => string): string {
  if (auth?.kind === 'bearer_token') return curl(body, bearer);
  return auth?.kind === 'hmac_sha256' ? `BODY=${body}; ${curl('"$BODY"', signature)}` : curl(body, '');
}
