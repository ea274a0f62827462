// The certificate authority of one launch of a session: it lives in this process's memory (and sealed, where another process may
// take the session over), signs for the hosts of the
// session's injections alone, and is trusted in that session's sandbox and nowhere else. Keys are made by Node; only the
// certificates are written by a library, because Node reads X.509 and does not issue it.

import { generateKeyPair, randomBytes } from 'node:crypto';
import { isIP } from 'node:net';
import { createSecureContext, type SecureContext } from 'node:tls';
import { promisify } from 'node:util';
import type Forge from 'node-forge';
import type { EdgeAuthority } from '../../flows/ports.ts';

const dayMs = 86_400_000;
const validDays = 365;
/** Clocks differ. */
const earlierMs = 3_600_000;
const pair = promisify(generateKeyPair);

type Keys = EdgeAuthority['own'];

const makeKeys = (): Promise<Keys> =>
  pair('rsa', {
    modulusLength: 2048,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });

export class SessionAuthority {
  /** PEM of its own certificate. */
  readonly certificate: string;
  readonly #name: string;
  readonly #forge: typeof Forge;
  readonly #signs: Forge.pki.rsa.PrivateKey;
  readonly #now: () => Date;
  readonly #leaf: Keys;
  readonly #contexts = new Map<string, SecureContext>();

  readonly #own: Keys;

  private constructor(
    forge: typeof Forge,
    name: string,
    of: Omit<EdgeAuthority, 'certificate'> & { readonly certificate?: string },
    now: () => Date,
  ) {
    this.#forge = forge;
    this.#name = name;
    this.#own = of.own;
    this.#leaf = of.leaf;
    this.#now = now;
    this.#signs = forge.pki.privateKeyFromPem(of.own.privateKey);
    this.certificate =
      of.certificate ??
      this.#issue(name, of.own.publicKey, [
        { name: 'basicConstraints', cA: true, pathLenConstraint: 0, critical: true },
        { name: 'keyUsage', keyCertSign: true, critical: true },
        { name: 'subjectKeyIdentifier' },
      ]);
  }

  /** A new one, or that which another process has made. */
  static async make(sessionId: string, now: () => Date, saved?: EdgeAuthority): Promise<SessionAuthority> {
    // The library is loaded by the first launch with an injection: a daemon starts without it.
    const [{ default: forge }, own, leaf] = await Promise.all([
      import('node-forge'),
      saved?.own ?? makeKeys(),
      saved?.leaf ?? makeKeys(),
    ]);
    return new SessionAuthority(forge, `svc session ${sessionId}`, { ...saved, own, leaf }, now);
  }

  /** For another process to go on with. */
  save(): EdgeAuthority {
    return { certificate: this.certificate, own: this.#own, leaf: this.#leaf };
  }

  /** What answers as this host; made once. */
  contextOf(host: string): SecureContext {
    const known = this.#contexts.get(host);
    if (known !== undefined) return known;
    const certificate = this.#issue(host, this.#leaf.publicKey, [
      { name: 'basicConstraints', cA: false, critical: true },
      { name: 'keyUsage', digitalSignature: true, keyEncipherment: true, critical: true },
      { name: 'extKeyUsage', serverAuth: true },
      { name: 'subjectAltName', altNames: [isIP(host) === 0 ? { type: 2, value: host } : { type: 7, ip: host }] },
    ]);
    const context = createSecureContext({ key: this.#leaf.privateKey, cert: certificate, minVersion: 'TLSv1.2' });
    this.#contexts.set(host, context);
    return context;
  }

  #issue(subject: string, publicKey: string, extensions: object[]): string {
    const forge = this.#forge;
    const now = this.#now().getTime();
    const certificate = forge.pki.createCertificate();
    certificate.publicKey = forge.pki.publicKeyFromPem(publicKey);
    // Positive, and never the same twice of one issuer.
    certificate.serialNumber = `01${randomBytes(15).toString('hex')}`;
    certificate.validity.notBefore = new Date(now - earlierMs);
    certificate.validity.notAfter = new Date(now + validDays * dayMs);
    // A common name has 64 characters at most; the alternative name is what clients look at.
    certificate.setSubject([{ name: 'commonName', value: subject.slice(0, 64) }]);
    certificate.setIssuer([{ name: 'commonName', value: this.#name }]);
    certificate.setExtensions(extensions);
    certificate.sign(this.#signs, forge.md.sha256.create());
    return forge.pki.certificateToPem(certificate).replaceAll('\r', '');
  }
}
