// Package rendezvous is where the ranks of one validation meet: a coordinator listens on exactly the address it was
// given, each rank proves that it knows the job's token, and then both exchange small JSON messages.
//
// What it promises: nobody without the token learns or changes anything (challenge-response with HMAC-SHA256 over job,
// rank, world size and both nonces, compared in constant time; a stranger sees one nonce and a closed connection); a
// frame is at most 64 KiB and the first ones at most 4 KiB; a handshake ends within 5 s however slowly its bytes come; at
// most 2 x world sockets are open; each rank joins once; whoever is turned away is counted. A silent peer is noticed by its
// missing heartbeat. What it does not promise: secrecy of the messages after the handshake. They are not encrypted and
// not signed one by one; use it on loopback or a trusted network.
package rendezvous
