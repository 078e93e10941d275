package model

import "testing"

// What an exchange sends to each rank is whole, and no more than the expected bytes need.
func TestSharesOfAnExchangeAreWhole(t *testing.T) {
	for _, ranks := range []int{1, 2, 3, 8, 72} {
		for _, bytes := range []float64{1, 15.5, 7168, 105456785.5, 3e11} {
			got := wholeShares(bytes, ranks)
			unit := int64(shareUnit * ranks)
			if int64(got)%unit != 0 || float64(got) < bytes || float64(got) >= bytes+float64(unit) {
				t.Errorf("%v bytes over %d ranks: %d", bytes, ranks, got)
			}
		}
	}
}
