package mysql

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certificate writes one that nobody vouches for, and its key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// TestTLS reads snapshot and binlog with and without encryption.
func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	s := start(t, "--ssl-cert="+cert, "--ssl-key="+key)
	s.Exec("CREATE TABLE shop.a (id INT PRIMARY KEY)", "INSERT INTO shop.a VALUES (0)", "CREATE USER tls@'127.0.0.1' IDENTIFIED BY 'x' REQUIRE SSL",
		"GRANT SELECT, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO tls@'127.0.0.1'")
	as := func(mode string) *reader {
		return read(t, s, map[string]any{"database.user": "tls", "database.password": "x", "database.ssl.mode": mode, "snapshot.mode": "initial"})
	}
	for i, mode := range []string{"preferred", "required"} {
		r := as(mode)
		r.open()
		r.until(i + 1)
		s.Exec("INSERT INTO shop.a VALUES (" + strings.Repeat("1", i+1) + ")")
		r.until(i + 2)
		r.close()
	}
	holds(t, as("disabled").fails(), "database.user", "Access denied")
	holds(t, as("verify_identity").fails(), "database.hostname: no connection", "certificate")
	plain := start(t)
	holds(t, read(t, plain, map[string]any{"database.ssl.mode": "required"}).fails(), "database.hostname: no connection", "TLS")
}
