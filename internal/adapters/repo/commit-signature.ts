// Whether a commit is signed by a key of a policy. A shallow read sees the tip alone, so this says "the tip is
// signed", nothing about its ancestors. SSH signatures are checked here, PGP through openpgp, loaded when first needed.

import type { ParsedCommit } from './objects.ts';
import { parseSshPublicKey, type SshKey, verifySshSignature } from './ssh-signature.ts';
import { RepoCondition, type SigStatus, type VerifyPolicy } from './types.ts';

interface Keys {
  readonly ssh: readonly SshKey[];
  readonly pgp: readonly string[];
}

/** Splits a policy into keys. Throws `signature-rejected` at an entry that is no key, or where there is none. */
export function readPolicy(policy: VerifyPolicy): Keys {
  const ssh: SshKey[] = [];
  const pgp: string[] = [];
  const block = /-----BEGIN PGP PUBLIC KEY BLOCK-----[\s\S]*?-----END PGP PUBLIC KEY BLOCK-----/g;
  for (const text of policy.keys) {
    pgp.push(...(text.match(block) ?? []));
    for (const line of text.replace(block, '').split(/\r?\n/)) {
      if (line.trim() !== '' && !line.trim().startsWith('#')) ssh.push(parseSshPublicKey(line.trim()));
    }
  }
  if (ssh.length + pgp.length === 0) throw rejected('the policy has no keys');
  return { ssh, pgp };
}

/** The key that signed the commit. Throws `signature-rejected` in every other case. */
export async function verifyCommit(commit: ParsedCommit, policy: VerifyPolicy, now: Date): Promise<SigStatus> {
  const keys = readPolicy(policy);
  const [signature, ...others] = commit.signatures;
  if (signature === undefined) throw rejected('the commit is not signed');
  if (others.length > 0) throw rejected('the commit carries several signatures');
  if (signature.startsWith('-----BEGIN SSH SIGNATURE-----')) {
    return { status: 'verified', format: 'ssh', key: verifySshSignature(signature, commit.payload, keys.ssh) };
  }
  if (signature.startsWith('-----BEGIN PGP SIGNATURE-----')) {
    return { status: 'verified', format: 'pgp', key: await verifyPgp(signature, commit.payload, keys.pgp, now) };
  }
  if (signature.startsWith('-----BEGIN SIGNED MESSAGE-----')) throw rejected('S/MIME signatures are not supported');
  throw rejected('the commit has a signature of no known kind');
}

/** Validity and expiry of a key are judged at the time of the signature, revocation always. */
async function verifyPgp(armored: string, payload: Buffer, armoredKeys: readonly string[], now: Date): Promise<string> {
  if (armoredKeys.length === 0) throw rejected('the commit is signed with PGP and the policy has no PGP key');
  const openpgp = await import('openpgp');
  try {
    const verificationKeys = (
      await Promise.all(armoredKeys.map((armoredKey) => openpgp.readKeys({ armoredKeys: armoredKey })))
    ).flat();
    const signature = await openpgp.readSignature({ armoredSignature: armored });
    const message = await openpgp.createMessage({ binary: new Uint8Array(payload) });
    const result = await openpgp.verify({ message, signature, verificationKeys, date: now, format: 'binary' });
    const [first, ...rest] = result.signatures;
    if (first === undefined || rest.length > 0) throw rejected('the commit must carry exactly one PGP signature');
    await first.verified;
    const id = first.keyID;
    const key = verificationKeys.find((candidate) => candidate.getKeys(id).length > 0);
    return key === undefined ? id.toHex() : key.getFingerprint();
  } catch (error) {
    if (error instanceof RepoCondition) throw error;
    throw rejected(`the PGP signature is not good: ${(error as Error).message.slice(0, 200)}`);
  }
}

function rejected(why: string): RepoCondition {
  return new RepoCondition('signature-rejected', why);
}
