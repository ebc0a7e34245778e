// Package guard keeps requests that a config asks for away from the machine itself
// and from the networks around it.
package guard

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
)

// ErrPrivate says that an address is not of the public internet.
var ErrPrivate = errors.New("the address is loopback, private or link-local")

// special are the ranges that are not of the public internet, beyond what
// net/netip names.
func special(a netip.Addr) bool {
	for _, prefix := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "fec0::/10",
	} {
		if netip.MustParsePrefix(prefix).Contains(a) {
			return true
		}
	}
	return false
}

// Private reports whether an address is not of the public internet. IPv4 addresses
// inside IPv6 ones count as what they are.
func Private(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		b := a.As16()
		switch {
		case netip.MustParsePrefix("64:ff9b::/96").Contains(a): // NAT64
			return Private(netip.AddrFrom4([4]byte(b[12:16])))
		case netip.MustParsePrefix("2002::/16").Contains(a): // 6to4
			return Private(netip.AddrFrom4([4]byte(b[2:6])))
		}
	}
	return !a.IsValid() || a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() || special(a)
}

// Control is for net.Dialer. The dialer calls it with the address it is about to
// connect to, after the name was resolved, so that no name can lead around it. The
// error wraps ErrPrivate.
func Control(_, address string, _ syscall.RawConn) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	if Private(a.Addr()) {
		return fmt.Errorf("%s: %w", a.Addr(), ErrPrivate)
	}
	return nil
}
