package delta;

import java.util.ArrayList;
import java.util.Collections;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import scala.Function1;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/** Rows from expressions in SQL, which Python has many of: each of its calls takes longer than Spark takes for one of these. */
public class Rows {
  private Rows() { }

  /** All rows of a relation, as a user would read them. */
  public static Dataset all(Relation relation) {
    return Dataset$.MODULE$.ofRows((SparkSession) relation.sparkSession(), relation.leaf());
  }

  /** @param columns expressions, joined by zero characters */
  public static Dataset scanned(Relation relation, String columns) throws ParseException {
    return of((SparkSession) relation.sparkSession(), columns, relation.scan());
  }

  /** @param name a column of the condition that stands for the one value in {@code value} */
  public static Dataset where(Dataset rows, String condition, String name, Dataset value, String columns) throws ParseException {
    SparkSession session = ((org.apache.spark.sql.classic.Dataset) rows).sparkSession();
    Expression keep = (Expression) parsed(session, condition).transform(new Replaced(name, plan(value)));
    return of(session, columns, new Filter(keep, plan(rows)));
  }

  private static Dataset of(SparkSession session, String columns, LogicalPlan from) throws ParseException {
    String[] texts = columns.isEmpty() ? new String[0] : columns.split("\u0000");
    ArrayList expressions = new ArrayList();
    for (int i = 0; i < texts.length; i++) expressions.add(parsed(session, texts[i]));
    return Dataset$.MODULE$.ofRows(session, new Project(CollectionConverters.asScala(expressions).toSeq(), from));
  }

  private static Expression parsed(SparkSession session, String text) throws ParseException {
    return session.sessionState().sqlParser().parseExpression(text);
  }

  private static LogicalPlan plan(Dataset rows) { return ((org.apache.spark.sql.classic.Dataset) rows).queryExecution().analyzed(); }

  /** A column by the subquery that gives its value. */
  private static class Replaced extends AbstractPartialFunction {
    private final String name;
    private final LogicalPlan value;

    Replaced(String name, LogicalPlan value) {
      this.name = name;
      this.value = value;
    }

    public boolean isDefinedAt(Object node) {
      return node instanceof UnresolvedAttribute && ((UnresolvedAttribute) node).name().equals(name);
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      return Cases.built("org.apache.spark.sql.catalyst.expressions.ScalarSubquery", Collections.singletonList(value));
    }
  }
}
