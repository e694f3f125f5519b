#!/usr/bin/env bash
# Makes every certificate of the login checks in a new folder. Usage: certificates.sh FOLDER
# ca.pem and other-ca.pem are two authorities. server.pem and server-old.pem are the server's first certificate, by ca.pem;
# server-new.pem is by other-ca.pem, so that a client can tell which one it was shown. broken.pem is none at all.
# Of clients: reader.pem (the user of $external), stranger.pem (no user), foreign.pem (reader's name, by other-ca.pem),
# expired.pem and revoked.pem (reader's name, by ca.pem); crl.pem revokes the last one.
set -euo pipefail
mkdir "$1" && cd "$1"

authority() {
  mkdir "$1.db" && : >"$1.db/index.txt" && echo 01 >"$1.db/serial" && echo 01 >"$1.db/crlnumber"
  cat >"$1.cnf" <<END
[ca]
default_ca = it
[it]
dir = $PWD/$1.db
database = \$dir/index.txt
serial = \$dir/serial
crlnumber = \$dir/crlnumber
new_certs_dir = \$dir
certificate = $PWD/$1.pem
private_key = $PWD/$1.key
default_md = sha256
default_days = 30
default_crl_days = 30
unique_subject = no
policy = any
[any]
countryName = optional
organizationName = optional
organizationalUnitName = optional
commonName = supplied
[server]
subjectAltName = IP:127.0.0.1, DNS:localhost
extendedKeyUsage = serverAuth
[client]
extendedKeyUsage = clientAuth
END
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -keyout "$1.key" -out "$1.pem" \
    -subj "/O=Quarry/CN=$1" -addext keyUsage=critical,keyCertSign,cRLSign 2>>log
}

# certificate NAME AUTHORITY KIND SUBJECT [OPTION...]: NAME.pem holds the certificate and its key.
certificate() {
  local name=$1 authority=$2 kind=$3 subject=$4 key=(ec -pkeyopt ec_paramgen_curve:P-256)
  shift 4
  [ "$name" != server ] || key=(rsa:2048)
  openssl req -newkey "${key[@]}" -nodes -keyout "$name.key" -out "$name.csr" -subj "$subject" 2>>log
  openssl ca -batch -notext -config "$authority.cnf" -extensions "$kind" -preserveDN -in "$name.csr" -out "$name.crt" "$@" 2>>log
  cat "$name.crt" "$name.key" >"$name.pem"
}

reader=/C=DE/O=Quarry/OU=clients/CN=reader
{
  authority ca
  authority other-ca
  certificate server ca server /O=Quarry/CN=server
  certificate server-new other-ca server /O=Quarry/CN=server
  certificate reader ca client "$reader"
  certificate stranger ca client /C=DE/O=Quarry/OU=clients/CN=stranger
  certificate foreign other-ca client "$reader"
  certificate expired ca client "$reader" -startdate 20200101000000Z -enddate 20200201000000Z
  certificate revoked ca client "$reader"
  openssl ca -config ca.cnf -revoke revoked.crt 2>>log
  openssl ca -config ca.cnf -gencrl -out crl.pem 2>>log
} || { cat log >&2; exit 1; }
cat ca.pem other-ca.pem >both-ca.pem
cp server.pem server-old.pem
echo "this is no certificate" >broken.pem
