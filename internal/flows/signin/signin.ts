// Sign-in: how a person's browser comes to a session and how that ends; the hand-off from the command line; the device
// grant by which a command line comes to a token (RFC 8628); providers of sign-in, and the roles that groups give.
// Decides nothing about what a session may do: that is its person's roles, looked up at each request (flows/tenancy).
// Every random value that opens something is made here, told once, and kept as a hash. Each way in is audited.

export { decideDevice, deviceToken, type GrantError, pendingDevice, startDevice } from './device.ts';
export { beginSignin, finishSignin, refusedGroups } from './provider.ts';
export { refreshGroups } from './refresh.ts';
export {
  dropSession,
  giveKey,
  handOff,
  listOwnSessions,
  methodsOf,
  signIn,
  signedIn,
  tellsBreakGlass,
} from './web-session.ts';
