package delta;

import java.util.Collections;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.VariableReference;
import org.apache.spark.sql.catalyst.plans.logical.Assignment;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import scala.Function1;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;

/**
 * Analyzer rule: resolves session variables in the values that UPDATE and MERGE assign. Spark resolves them only in conditions and queries.
 * It calls no Python.
 */
public class Variables extends Rule {
  private final SparkSession session;

  public Variables(SparkSession session) { this.session = session; }

  public TreeNode apply(TreeNode tree) {
    if (!(tree instanceof UpdateTable || tree instanceof MergeIntoTable)) return tree;
    for (Iterator it = tree.children().iterator(); it.hasNext(); )
      if (!((LogicalPlan) it.next()).resolved()) return tree;
    if (!Target.isOfOurs((LogicalPlan) tree.children().head())) return tree;
    return ((LogicalPlan) tree).transformExpressions(new Assigned((LogicalPlan) tree));
  }

  /** Partial function over expressions: resolves variables in the value of an assignment. */
  private class Assigned extends AbstractPartialFunction {
    private final Named named;

    Assigned(LogicalPlan statement) { named = new Named(statement); }

    public boolean isDefinedAt(Object node) { return node instanceof Assignment && !((Assignment) node).value().resolved(); }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      Assignment given = (Assignment) node;
      return new Assignment(given.key(), (Expression) given.value().transform(named));
    }
  }

  /** Partial function over expressions: replaces a name that is no column of the statement with the variable of that name. */
  private class Named extends AbstractPartialFunction {
    private final LogicalPlan statement;

    Named(LogicalPlan statement) { this.statement = statement; }

    public boolean isDefinedAt(Object node) { return node instanceof UnresolvedAttribute && !isColumn((UnresolvedAttribute) node); }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      Expression found = variable((UnresolvedAttribute) node);
      return found == null ? node : found;
    }

    private boolean isColumn(UnresolvedAttribute name) {
      try {
        for (Iterator it = statement.children().iterator(); it.hasNext(); )
          if (((LogicalPlan) it.next()).resolve(name.nameParts(), session.sessionState().conf().resolver()).isDefined()) return true;
        return false;
      } catch (Exception ambiguous) {  // or a field that the struct lacks: Spark raises the error
        return true;
      }
    }
  }

  /** The variable of a name, resolved in a query without tables; null if there is none. */
  private Expression variable(UnresolvedAttribute name) {
    Seq names = CollectionConverters.asScala(Collections.singletonList(name)).toSeq();
    LogicalPlan analysed = (LogicalPlan) session.sessionState().analyzer().execute(new Project(names, new OneRowRelation()));
    Object found = analysed instanceof Project ? ((Project) analysed).projectList().head() : null;
    if (found instanceof Alias) found = ((Alias) found).child();
    return found instanceof VariableReference ? (Expression) found : null;
  }

  /** Spark calls it for each session created from an enabled one. */
  public static class Builder extends AbstractFunction1 {
    public Object apply(Object session) { return new Variables((SparkSession) session); }
  }
}
