package topology

import (
	"bytes"
	"strings"
	"testing"
)

// A fabric whose switches reduce says so, and keeps saying so through a document.
func TestSHARPSurvivesTheRoundTrip(t *testing.T) {
	c, err := ReadYAML(strings.NewReader(smallDoc+"fabric: {kind: InfiniBand, sharp: true}\n"), "small", catalog(t))
	if err != nil || !c.Fabric.SHARP {
		t.Fatalf("%v, SHARP %v", err, c != nil && c.Fabric.SHARP)
	}
	var b bytes.Buffer
	if err := WriteYAML(&b, c); err != nil || !strings.Contains(b.String(), "sharp: true") {
		t.Errorf("%v\n%s", err, b.String())
	}
	if c, err = ReadYAML(strings.NewReader(smallDoc+"fabric: {kind: InfiniBand}\n"), "small", catalog(t)); err != nil || c.Fabric.SHARP {
		t.Errorf("off unless stated: %v", err)
	}
}
