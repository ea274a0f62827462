// Certificates of the fake cluster: an authority of its own, a server on 127.0.0.1, a client.

import { generateKeyPairSync } from 'node:crypto';
import forge from 'node-forge';

export interface Certificates {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
  readonly clientCert: string;
  readonly clientKey: string;
}

interface Pair {
  readonly cert: forge.pki.Certificate;
  readonly key: string;
}

function make(name: string, extensions: object[], issuer?: Pair): Pair {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const key = privateKey.export({ type: 'pkcs1', format: 'pem' }).toString();
  const own = forge.pki.privateKeyFromPem(key);
  const cert = forge.pki.createCertificate();
  cert.publicKey = forge.pki.setRsaPublicKey(own.n, own.e);
  cert.serialNumber = `01${forge.util.bytesToHex(forge.random.getBytesSync(8))}`;
  cert.validity.notBefore = new Date(Date.now() - 3_600_000);
  cert.validity.notAfter = new Date(Date.now() + 86_400_000);
  const subject = [
    { name: 'commonName', value: name },
    { name: 'organizationName', value: 'system:masters' },
  ];
  cert.setSubject(subject);
  cert.setIssuer(issuer?.cert.subject.attributes ?? subject);
  cert.setExtensions(extensions);
  cert.sign(issuer === undefined ? own : forge.pki.privateKeyFromPem(issuer.key), forge.md.sha256.create());
  return { cert, key };
}

export function makeCertificates(): Certificates {
  const ca = make('test-ca', [
    { name: 'basicConstraints', cA: true, critical: true },
    { name: 'keyUsage', keyCertSign: true, digitalSignature: true, critical: true },
  ]);
  const server = make(
    'test-server',
    [
      {
        name: 'subjectAltName',
        altNames: [
          { type: 7, ip: '127.0.0.1' },
          { type: 2, value: 'localhost' },
        ],
      },
    ],
    ca,
  );
  const client = make('test', [{ name: 'extKeyUsage', clientAuth: true }], ca);
  return {
    ca: forge.pki.certificateToPem(ca.cert),
    cert: forge.pki.certificateToPem(server.cert),
    key: server.key,
    clientCert: forge.pki.certificateToPem(client.cert),
    clientKey: client.key,
  };
}
