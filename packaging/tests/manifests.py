"""Kubernetes manifests against the newest schemas that kubernetes-validate carries, strictly: a field that no schema knows fails. manifests.py FILE..."""

import sys

import kubernetes_validate
import yaml

version = kubernetes_validate.latest_version()
count = 0
for name in sys.argv[1:]:
    with open(name) as file:
        for document in filter(None, yaml.safe_load_all(file)):
            try:
                kubernetes_validate.validate(document, version, strict=True)
            except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as error:
                sys.exit(f"packages: FAILED: {name}: {document.get('kind')}: {error}")
            count += 1
if count == 0:
    sys.exit("packages: FAILED: no manifest was read")
print(f"packages: manifests: {count} objects hold against the schemas of Kubernetes {version}")
