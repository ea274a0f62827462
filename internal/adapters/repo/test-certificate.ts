// A self-signed certificate for 127.0.0.1, made on the spot: tests of TLS need no key in the repository and no openssl.

import { generateKeyPairSync, randomBytes, sign } from 'node:crypto';

function der(tag: number, ...parts: Buffer[]): Buffer {
  const body = Buffer.concat(parts);
  const size =
    body.length < 128
      ? [body.length]
      : body.length < 256
        ? [0x81, body.length]
        : [0x82, body.length >> 8, body.length & 255];
  return Buffer.concat([Buffer.from([tag, ...size]), body]);
}

const sequence = (...parts: Buffer[]) => der(0x30, ...parts);
const oid = (hex: string) => der(0x06, Buffer.from(hex, 'hex'));
const text = (tag: number, value: string) => der(tag, Buffer.from(value, 'latin1'));

/** Certificate and private key in PEM, valid from 2020 to 2049. */
export function selfSigned(): { readonly cert: string; readonly key: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const ecdsaWithSha256 = sequence(oid('2a8648ce3d040302'));
  const name = sequence(der(0x31, sequence(oid('550403'), text(0x0c, `loopback ${randomBytes(4).toString('hex')}`))));
  const addressOfHost = sequence(der(0x87, Buffer.from([127, 0, 0, 1])));
  const extensions = sequence(
    sequence(oid('551d11'), der(0x04, addressOfHost)),
    sequence(oid('551d13'), der(0x01, Buffer.from([255])), der(0x04, sequence(der(0x01, Buffer.from([255]))))),
  );
  const body = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    ecdsaWithSha256,
    name,
    sequence(text(0x17, '200101000000Z'), text(0x17, '490101000000Z')),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, extensions),
  );
  const signature = der(0x03, Buffer.from([0]), sign('sha256', body, privateKey));
  const lines =
    sequence(body, ecdsaWithSha256, signature)
      .toString('base64')
      .match(/.{1,64}/g) ?? [];
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
  };
}
