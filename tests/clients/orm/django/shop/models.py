"""Two tables with a relation, an array and an embedded document."""

from django.db import models
from django_mongodb_backend.fields import ArrayField, EmbeddedModelField
from django_mongodb_backend.models import EmbeddedModel


class Address(EmbeddedModel):
    city = models.CharField(max_length=40)


class Author(models.Model):
    name = models.CharField(max_length=40, unique=True)
    balance = models.DecimalField(max_digits=8, decimal_places=2, default=0)
    tags = ArrayField(models.CharField(max_length=10), default=list)
    address = EmbeddedModelField(Address, null=True)


class Book(models.Model):
    title = models.CharField(max_length=40, unique=True)
    pages = models.IntegerField()
    author = models.ForeignKey(Author, on_delete=models.CASCADE, related_name="books")

    class Meta:
        indexes = [models.Index(fields=["author", "-pages"])]
