package whatif

import "sync"

// each calls f for 0 to n-1 on as many goroutines as the problem allows, and returns when all are done. What f makes must
// not depend on the order of calls.
func (p *Problem) each(n int, f func(int)) {
	workers := min(max(1, p.Workers), n)
	if workers < 2 {
		for i := range n {
			f(i)
		}
		return
	}
	var wg sync.WaitGroup
	next := make(chan int)
	for range workers {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}
