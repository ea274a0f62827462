// What is wrong with a body that a harness sent.

/** The body cannot be read; the message is for the harness. */
export class BodyProblem extends Error {}
