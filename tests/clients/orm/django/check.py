"""Django with django-mongodb-backend: tables, relations, transaction.atomic with commit, rollback and nesting, a change event.

Django's own transaction.atomic does nothing with this backend; the backend brings one of its own. Usage: check.py HOST:PORT
"""

import sys

import django
import django_mongodb_backend
import pymongo
from django.conf import settings

DATABASE = "orm_django"
settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django_mongodb_backend",
            "HOST": f"mongodb://{sys.argv[1]}/?replicaSet=rs0",
            "NAME": DATABASE,
            "OPTIONS": {"serverSelectionTimeoutMS": 10000},
        }
    },
    DEFAULT_AUTO_FIELD="django_mongodb_backend.fields.ObjectIdAutoField",
    INSTALLED_APPS=["shop"],
    USE_TZ=True,
)
django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import DatabaseError, IntegrityError, connection  # noqa: E402
from django.db.models import Count, F, Sum  # noqa: E402
from django_mongodb_backend import transaction  # noqa: E402
from shop.models import Address, Author, Book  # noqa: E402


def equal(what, given, expected):
    if given != expected:
        sys.exit(f"{what}: given {given!r}, expected {expected!r}")


def refused(kind, block):
    try:
        block()
    except kind as error:
        return error
    sys.exit(f"{block.__name__} did not raise {kind.__name__}")


def counts():
    return Author.objects.count(), Book.objects.count()


def relations():
    ann = Author.objects.create(name="ann", balance=100, tags=["a", "b"], address=Address(city="Graz"))
    bob = Author.objects.create(name="bob", address=Address(city="Linz"))
    Book.objects.bulk_create([Book(title=f"t{n}", pages=n * 100, author=(ann, bob)[n % 2]) for n in range(6)])
    equal("a join", list(Book.objects.filter(author__name="ann").order_by("-pages").values_list("title", flat=True)), ["t4", "t2", "t0"])
    equal("select_related", Book.objects.select_related("author").get(title="t3").author.address.city, "Linz")
    sums = Author.objects.annotate(n=Count("books"), sum=Sum("books__pages")).order_by("name").values_list("name", "n", "sum")
    equal("a group", list(sums), [("ann", 3, 600), ("bob", 3, 900)])
    equal("an array", [a.name for a in Author.objects.filter(tags__contains=["b"])], ["ann"])
    equal("an embedded field", [a.name for a in Author.objects.filter(address__city="Linz")], ["bob"])
    equal("an update", Book.objects.filter(pages__gte=300).update(pages=F("pages") + 1), 3)


def commit_and_rollback(outside):
    with transaction.atomic():
        Author.objects.filter(name="ann").update(balance=F("balance") - 30)
        Author.objects.filter(name="bob").update(balance=F("balance") + 30)
        Author.objects.create(name="cid")
        equal("inside", counts(), (3, 6))
        equal("outside before the commit", outside["shop_author"].count_documents({}), 2)
    equal("outside after it", outside["shop_author"].count_documents({}), 3)
    equal("balances", [int(a.balance) for a in Author.objects.order_by("name")], [70, 30, 0])

    def half():
        with transaction.atomic():
            Author.objects.all().update(balance=0)
            Author.objects.get(name="cid").delete()
            raise KeyError("changed my mind")

    def twice():
        with transaction.atomic():
            Author.objects.create(name="dan")
            Author.objects.create(name="ann")

    refused(KeyError, half)
    refused(IntegrityError, twice)
    equal("balances after the rollback", [int(a.balance) for a in Author.objects.order_by("name")], [70, 30, 0])
    equal("outside after the rollback", outside["shop_author"].count_documents({}), 3)

    done = []
    with transaction.atomic():
        transaction.on_commit(lambda: done.append("outer"))
        with transaction.atomic():
            Author.objects.filter(name="cid").update(balance=1)
        equal("after the inner block", (outside["shop_author"].find_one({"name": "cid"})["balance"].to_decimal(), done), (0, []))
    equal("on_commit", (int(Author.objects.get(name="cid").balance), done), (1, ["outer"]))


def conflict(outside):
    def late():
        with transaction.atomic():
            Author.objects.filter(name="ann").count()
            outside["shop_author"].update_one({"name": "ann"}, {"$set": {"tags": ["outside"]}})
            Author.objects.filter(name="ann").update(tags=["inside"])

    error = refused(DatabaseError, late)
    equal("the conflict's code", error.__cause__.code, 112)
    equal("the first writer won", Author.objects.get(name="ann").tags, ["outside"])


def stream(outside):
    with outside["shop_book"].watch() as watched:
        equal("an event without a change", watched.try_next(), None)
        with transaction.atomic():
            book = Book.objects.create(title="new", pages=1, author=Author.objects.get(name="cid"))
            Book.objects.filter(title="t0").update(pages=7)
        events = [watched.next(), watched.next()]
    equal("the insert", (events[0]["operationType"], events[0]["fullDocument"]["_id"]), ("insert", book.pk))
    equal("the update", (events[1]["operationType"], events[1]["updateDescription"]["updatedFields"]), ("update", {"pages": 7}))
    equal("one transaction", (events[0]["lsid"], events[0]["txnNumber"]), (events[1]["lsid"], events[1]["txnNumber"]))


def main():
    outside = pymongo.MongoClient(f"mongodb://{sys.argv[1]}/?replicaSet=rs0")[DATABASE]
    outside.client.drop_database(DATABASE)
    equal("transactions", connection.features._supports_transactions, True)
    call_command("migrate", run_syncdb=True, verbosity=0)
    keys = {tuple(index["key"]) for index in outside["shop_book"].list_indexes()}
    equal("indexes", keys, {("_id",), ("title",), ("author_id",), ("author_id", "pages")})
    relations()
    commit_and_rollback(outside)
    conflict(outside)
    Author.objects.get(name="bob").delete()
    equal("a cascade", counts(), (2, 3))
    stream(outside)
    with connection.schema_editor() as editor:
        for model in (Book, Author):
            editor.delete_model(model)
    connection.close()
    outside.client.close()
    print(f"django {django.get_version()} with django-mongodb-backend {django_mongodb_backend.__version__} (driver {pymongo.version}): ok")


if __name__ == "__main__":
    main()
