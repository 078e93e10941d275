package collective

// Send and receive between two GPUs of one NVLink domain. NCCL splits the buffer over channels by its size alone (enqueue.cc,
// addP2pToPlan, 2.19 to 2.28): a communicator of two ranks takes half of its 32 point-to-point channels while each part stays at
// or below 32 chunks of 512 KiB (p2pChunkSize over NVLink), all of them beyond.
const (
	p2pChannels  = 16                           // to p2pHalfBytes; twice as many beyond
	p2pHalfBytes = p2pChannels * 32 * 512 << 10 // bytes
)

// sendRecv is the time of one send/recv both ways, us: launch and slow start of an all_to_all of two ranks, which runs the same
// kernel, and the bytes over the channels (at what one of them moves) and over the port (loaded both ways).
func (d *domainForm) sendRecv(bytes float64) float64 {
	p := d.Params
	channels := float64(p2pChannels)
	if bytes > p2pHalfBytes {
		channels *= 2
	}
	bw := norm4(bytes/(1000*channelGBps*channels), bytes/(1000*d.LinkGBps*portShareBothWays))
	return (p.BA+p.PA)*(1+p.DA*bytes/(bytes+kneeA2A)) + bw*(1+p.RA/(1+2*bytes/kneeRamp))
}

// remoteChannels are those that carry what an all_to_all of n ranks sends: NCCL gives each of the n peers, itself included, an equal
// power of two of 32 channels at first, and twice as many while the peer's part of a channel is above 16 MiB.
func remoteChannels(n int, bytes float64) float64 {
	each := 2 * p2pChannels
	for each > 1 && each*n > 2*p2pChannels {
		each /= 2
	}
	for each < 2*p2pChannels && bytes/float64(n*each) > 32*512<<10 {
		each *= 2
	}
	return float64(min(each*(n-1), 2*p2pChannels))
}
