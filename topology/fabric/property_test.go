package fabric

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"rankmap/topology"
)

// TestAnyHostListExpands draws expressions together with the plain list of names they mean.
func TestAnyHostListExpands(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var expr, want []string
		for range rapid.IntRange(1, 4).Draw(r, "items") {
			item, names := "", []string{""}
			for range rapid.IntRange(1, 3).Draw(r, "parts") {
				fixed := rapid.StringMatching(`[a-z]{1,3}[-.]?`).Draw(r, "fixed")
				item += fixed
				var inside, nums []string
				for range rapid.IntRange(0, 2).Draw(r, "ranges") {
					width := rapid.IntRange(1, 4).Draw(r, "width")
					lo := rapid.IntRange(0, 20).Draw(r, "lo")
					hi := lo + rapid.IntRange(0, 5).Draw(r, "more")
					inside = append(inside, fmt.Sprintf("%0*d-%d", width, lo, hi))
					width = max(width, len(fmt.Sprint(lo)))
					for v := lo; v <= hi; v++ {
						nums = append(nums, fmt.Sprintf("%0*d", width, v))
					}
				}
				if inside == nil {
					nums = []string{""}
				} else {
					item += "[" + strings.Join(inside, ",") + "]"
				}
				var next []string
				for _, n := range names {
					for _, v := range nums {
						next = append(next, n+fixed+v)
					}
				}
				names = next
			}
			expr, want = append(expr, item), append(want, names...)
		}
		got, err := topology.ExpandHostsUpTo(strings.Join(expr, ","), maxHosts)
		if err != nil || !slices.Equal(got, want) {
			r.Fatalf("%s: %v, %v; want %v", strings.Join(expr, ","), got, err, want)
		}
	})
}

// TestAnyTreeKeepsItsHosts draws trees of switches, writes them as topology.conf in any order of lines, and checks each
// host's leaf, each switch's tier and the number of links.
func TestAnyTreeKeepsItsHosts(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		leafOf, tier := map[string]string{}, map[string]int{}
		var entries []string
		links, n := 0, 0
		var grow func(depth int) (string, int)
		grow = func(depth int) (string, int) {
			n++
			name := fmt.Sprintf("sw%d", n)
			kids := 0
			if depth < 4 {
				kids = rapid.IntRange(0, 3).Draw(r, "kids")
			}
			if kids == 0 {
				hosts := rapid.IntRange(1, 4).Draw(r, "hosts")
				entries = append(entries, fmt.Sprintf("SwitchName=%s Nodes=h%d-[1-%d]", name, n, hosts))
				for i := range hosts {
					leafOf[fmt.Sprintf("h%s-%d", name[2:], i+1)] = name
				}
				tier[name] = 0
				return name, 0
			}
			var list []string
			height := 0
			for range kids {
				k, h := grow(depth + 1)
				list, height = append(list, k), max(height, h+1)
				links++
			}
			tier[name] = height
			entries = append(entries, fmt.Sprintf("SwitchName=%s Switches=%s", name, strings.Join(list, ",")))
			return name, height
		}
		grow(0)
		lines := rapid.Permutation(entries).Draw(r, "order")
		res, err := Slurm(strings.NewReader(strings.Join(lines, "\n")), "t.conf")
		if err != nil {
			r.Fatal(err)
		}
		d := res.Fabric
		if len(d.Hosts) != len(leafOf) || len(d.Switches) != n || len(d.Links) != links || len(res.Warnings) > 0 {
			r.Fatalf("%d hosts, %d switches, %d links, warnings %q", len(d.Hosts), len(d.Switches), len(d.Links), res.Warnings)
		}
		for _, h := range d.Hosts {
			if h.Leaf != leafOf[h.Name] {
				r.Errorf("host %s is below %s, want %s", h.Name, h.Leaf, leafOf[h.Name])
			}
		}
		for _, s := range d.Switches {
			if s.Tier != tier[s.Name] {
				r.Errorf("switch %s has tier %d, want %d", s.Name, s.Tier, tier[s.Name])
			}
		}
		if !slices.IsSortedFunc(d.Hosts, func(a, b topology.DescHost) int { return topology.CompareNames(a.Name, b.Name) }) {
			r.Error("hosts are not in the order of their names")
		}
	})
}
