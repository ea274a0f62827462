'use strict';
// Joins its standard streams to the socket of a box's first process: `node -e SOURCE PATH`. Ends with either of them.
const socket = require('node:net').connect(process.argv[1].replace(/^@/, '\0'));
const end = () => process.exit(0);
socket.on('error', end).on('close', end);
process.stdin.on('error', end).on('close', end);
process.stdout.on('error', end);
process.stdin.pipe(socket);
socket.pipe(process.stdout);
