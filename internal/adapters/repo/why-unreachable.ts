// Why a server could not be reached, in words for the operator: what can be done about it differs.

const words: { readonly [code: string]: string } = {
  UND_ERR_HEADERS_TIMEOUT: 'it did not answer in time',
  UND_ERR_BODY_TIMEOUT: 'it stopped sending in the middle of an answer',
  UND_ERR_CONNECT_TIMEOUT: 'no connection in time',
  UND_ERR_SOCKET: 'the connection was cut',
  ENOTFOUND: 'the name is not known',
  ECONNREFUSED: 'the connection is refused',
  CERT_HAS_EXPIRED: 'its certificate has expired',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another name',
};

const untrusted =
  /^(?:DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_GET_ISSUER_CERT(?:_LOCALLY)?|UNABLE_TO_VERIFY_LEAF_SIGNATURE)$/;

/** Of the code of a failure, which not every one has. */
export function whyUnreachable(code: unknown): string {
  if (typeof code !== 'string') return 'the connection failed';
  if (untrusted.test(code))
    return `its certificate is not trusted (${code}): start svcd with NODE_EXTRA_CA_CERTS=FILE, the certificate of the authority to trust`;
  return (Object.hasOwn(words, code) ? words[code] : undefined) ?? `the connection failed (${code})`;
}
